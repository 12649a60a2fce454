"""Loading a checked artifact as a shared object.

The bytes go to a memory file: no name on disk, nothing another program can change between check
and load. Its descriptor stays open until `close`: the loader compares names, and a reused
`/proc/self/fd/N` would silently give the old library.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import tempfile

from ...errors import ArtifactCorrupt, DriverError

ENTRY = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p
)  # the GIL is released during the call


class Library:
    """An artifact in memory, with the addresses of its symbols."""

    def __init__(self, blob: bytes, where: str) -> None:
        self.where = where
        self._fd, self._file = _content(blob)
        path = self._file or f"/proc/self/fd/{self._fd}"
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            self._drop()
            raise DriverError("dlopen", 0, str(error), where) from error

    def address(self, symbol: str) -> int:
        """Where a symbol lies; ArtifactCorrupt where there is none."""
        try:
            function = self._library[symbol]
        except AttributeError as error:
            raise ArtifactCorrupt(
                f"no symbol {symbol}", where=self.where, do="rebuild the bundle"
            ) from error
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address

    def close(self) -> None:
        """Unload; nothing may run in it or call it any more."""
        _ctypes.dlclose(self._library._handle)
        self._drop()

    def _drop(self) -> None:
        os.close(self._fd)
        if self._file:
            os.unlink(self._file)


def _content(blob: bytes) -> tuple[int, str]:
    """A descriptor with the bytes, and a file name where the system has no memory files."""
    try:
        fd, name = os.memfd_create("gristmill", os.MFD_CLOEXEC), ""
    except (AttributeError, OSError):
        fd, name = tempfile.mkstemp(prefix="gristmill-", suffix=".so")
    with open(fd, "wb", closefd=False) as file:
        file.write(blob)
    return fd, name
