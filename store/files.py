"""Writing files so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from pathlib import Path
from typing import BinaryIO

_TEMPORARY = re.compile(r"\..*\.(\d+)\.[0-9a-f]{8}\.tmp", re.DOTALL)
_MINUTE, _DAY = 60.0, 86400.0
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


def sweep(folder: Path) -> int:
    """Delete what writers that were killed left below `folder`; gives the number of files. What
    cannot be deleted stays."""
    swept, now = 0, time.time()
    for path in folder.rglob(".*.tmp"):
        with contextlib.suppress(OSError):
            if is_left_over(path.name, path.stat().st_mtime, now):
                path.unlink()
                swept += 1
    return swept


def is_left_over(name: str, dated: float, now: float) -> bool:
    """Whether a file of that name and date is what a writer left that was killed.

    A temporary file is if its process is gone and it is a minute old (a process of another machine
    or container only looks gone), or if it is a day old or a day ahead, by a clock that was wrong.
    """
    found = _TEMPORARY.fullmatch(name)
    age = now - dated
    return found is not None and (abs(age) > _DAY or (age > _MINUTE and not _runs(int(found[1]))))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def write_atomic(path: Path, data: bytes, sync: bool = False) -> None:
    """Replace the file at `path` by `data`, creating folders; WriteError where that fails.

    sync: wait until the bytes are on the disk before the name points at them.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            with _created(temporary) as file:
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


def _created(path: Path) -> BinaryIO:
    """A new file; its folders are made where they are missing, which is seldom."""
    try:
        return open(path, "wb")
    except (FileNotFoundError, NotADirectoryError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "wb")
