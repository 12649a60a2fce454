"""Writing files so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


class WriteError(OSError):
    """A file that could not be written: path, reason, and that nothing was left behind."""

    def __init__(self, path: Path, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(
            f"cannot write {path}: {reason}; nothing was changed "
            "(free some space, or make the folder writable)"
        )
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
