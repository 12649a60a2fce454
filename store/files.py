"""Writing files so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from pathlib import Path

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


def read_small(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file, of `most` + 1 bytes where there are more. OSError, also where it is a
    pipe or another thing that nobody may ever write to."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a file", os.fspath(path))
        return file.read(most + 1)


def write_atomic(path: str | os.PathLike[str], data: bytes, sync: bool = False) -> None:
    """Replace the file at `path` by `data`, creating folders; WriteError where that fails.

    sync: wait until the bytes are on the disk before the name points at them.
    """
    folder, name = os.path.split(path)  # strings: a Path costs as much as the system's calls
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        try:
            descriptor = _created(temporary)
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(descriptor, left) :]
                if sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise WriteError(Path(path), error) from error


def _created(path: str) -> int:
    """A new file, open to write; its folders are made where they are missing, which is seldom."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except (FileNotFoundError, NotADirectoryError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)
