"""Locks on files that the system gives back when their holder dies, on whatever machine it ran.

flock(2): held by an open file, so that threads exclude each other too; over NFS the server keeps
it. A lock's file is removed when it is given back; whoever waited for it makes a new one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
import weakref
from pathlib import Path

_FIRST, _LONGEST = 0.002, 0.1  # seconds between two attempts


class Lock:
    """A held lock. The file's date tells since when, by the clock of whoever keeps the file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.since_ns = os.fstat(descriptor).st_mtime_ns
        _held.add(self)

    def release(self) -> None:
        """Give it back, once."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink()
            self._forget()

    def _forget(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            self.release()


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _in_child() -> None:
    """A forked child shares the open files, and a lock would live as long as the child."""
    for lock in list(_held):
        lock._forget()


os.register_at_fork(after_in_child=_in_child)


def take(path: Path, patience: float = 0.0) -> Lock | None:
    """The lock of that name, made where it is missing; None where another holds it for longer than
    `patience` seconds. OSError where files cannot be made or locked there."""
    deadline, pause = time.monotonic() + patience, _FIRST
    descriptor = _opened(path)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _names(path, descriptor):
                return Lock(path, descriptor)
            os.close(descriptor)  # given back, and its file removed, meanwhile
            descriptor = _opened(path)
            continue
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                os.close(descriptor)
                return None
        except OSError:
            os.close(descriptor)
            raise
        time.sleep(min(pause, left))
        pause = min(2 * pause, _LONGEST)


def dead(path: Path) -> bool:
    """Whether nobody holds the lock of an existing file any more; its file is then removed.

    Where locks do not work, whoever made the file counts as alive.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return error.errno in (errno.ENOENT, errno.ESTALE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _names(path, descriptor):
            path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)


def _names(path: Path, descriptor: int) -> bool:
    """Whether the path still names the open file."""
    try:
        there, held = os.stat(path), os.fstat(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ESTALE):
            return False
        raise
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
