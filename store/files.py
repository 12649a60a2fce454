"""Writing files so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "; free some space there or choose another folder",
    errno.EDQUOT: "; free some space there or choose another folder",
    errno.EROFS: "; choose another folder",
    errno.EACCES: "; make the folder writable or choose another",
    errno.EPERM: "; make the folder writable or choose another",
}


class WriteError(OSError):
    """A file that could not be written: path, reason, what to do; nothing was left behind."""

    def __init__(self, path: Path, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        remedy = _REMEDIES.get(cause.errno or 0, "")
        super().__init__(f"cannot write {path}: {reason}; nothing was changed{remedy}")
        self.path, self.cause = path, cause


def write_atomic(path: Path, data: bytes, sync: bool = False) -> None:
    """Replace the file at `path` by `data`, creating folders; WriteError where that fails.

    sync: wait until the bytes are on the disk before the name points at them.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        raise WriteError(path, error) from error
