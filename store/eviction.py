"""Keeping a folder of entries and contents within a size: what was used longest ago goes first.

A file's date says when it was last used: whoever uses one that is dated before its own lease, or an
hour ago, dates it anew. A build in progress holds a lease, a lock under `leases/`, and nothing that
was used since the eldest live lease began is removed. The system gives the lock back when its
holder dies. A lease protects what was used within a day; longer, and one forgotten process
would keep a store from ever shrinking. So would dates ahead of the clock, which was set back since:
such a file counts as used now, and a lease of such a date as begun a day ago.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import files, locks

KINDS = ("ac", "cas")
LEASES, CLAIMS, USAGE = "leases", "claims", "usage"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400  # seconds
_NS = 1_000_000_000
_KEPT = 0.9  # of the limit, after an eviction: the next one is some time away


@dataclass(frozen=True, slots=True)
class _File:
    used_ns: int
    size: int
    path: str


class Lease:
    """The mark of a build in progress. `since_ns` by the clock of the store's disk; None where
    nothing can be written or locked there, and so nothing be protected."""

    def __init__(self, root: Path) -> None:
        try:
            self._lock = locks.take(root / LEASES / secrets.token_hex(8))
        except OSError:
            self._lock = None
        self.since_ns = self._lock.since_ns if self._lock else None

    def mark_used(self, path: str, dated_ns: int) -> bool:
        """Date a file that is in use, unless its date says so; False where it is gone."""
        if self.since_ns is None:
            return True
        if dated_ns >= self.since_ns and dated_ns > time.time_ns() - _HOUR * _NS:
            return True
        try:
            os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:  # another user's: it keeps its date, and goes earlier
            pass
        return True

    def release(self) -> None:
        """The build is over."""
        if self._lock:
            self._lock.release()
        self._lock, self.since_ns = None, None


def used_bytes(root: Path) -> int:
    """What the store holds, as found within the last hour or counted now; counting deletes what
    killed writers left."""
    path = root / USAGE
    with contextlib.suppress(OSError, ValueError):
        if 0 <= time.time() - path.stat().st_mtime < _HOUR:
            return max(0, int(path.read_text()))
    total = sum(file.size for file in _scan(root))
    _note(root, total)
    return total


def add_used(root: Path, added: int) -> int:
    """Add what was written to the last count, for others to see; gives the sum."""
    path, total = root / USAGE, used_bytes(root)
    with contextlib.suppress(OSError):
        counted = path.stat().st_mtime_ns
        _note(root, total + added)
        os.utime(path, ns=(counted, counted))  # it is as old as its count
    return total + added


def evict(root: Path, limit: int) -> tuple[int, int]:
    """Bring the store below its limit, as far as running builds allow; gives the bytes that are
    left and the number of files removed. Claims of builders that died go too."""
    for claim in _entries(root / CLAIMS):
        locks.dead(Path(claim.path))
    found = sorted(_scan(root), key=lambda file: file.used_ns)
    total, removed = sum(file.size for file in found), 0
    if total > limit:
        protected_ns = _protected(root)
        for file in found:
            if total <= limit * _KEPT or file.used_ns >= protected_ns:
                break
            if _remove(file):
                removed += 1
                total -= file.size
    _note(root, total)
    return total, removed


def _protected(root: Path) -> int:
    """The date from which on files are in use by a build in progress."""
    eldest = now = time.time_ns()
    for path in (root / LEASES).glob("*"):
        with contextlib.suppress(OSError):
            dated = path.stat().st_mtime_ns
            if not locks.dead(path):
                eldest = min(eldest, dated if dated < now + _MINUTE * _NS else 0)
    return max(eldest, now - _DAY * _NS)


def _remove(file: _File) -> bool:
    """Remove a file, unless somebody has used it since it was looked at."""
    try:
        if os.stat(file.path).st_mtime_ns > file.used_ns:
            return False
        os.unlink(file.path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _scan(root: Path) -> Iterator[_File]:
    now = time.time()
    for kind in KINDS:
        for folder in _entries(root / kind):
            for entry in _entries(folder.path):
                with contextlib.suppress(OSError):
                    state = entry.stat()
                    if files.is_left_over(entry.name, state.st_mtime, now):
                        os.unlink(entry.path)
                    elif not entry.name.startswith("."):
                        used_ns = state.st_mtime_ns
                        if state.st_mtime > now + _DAY:
                            with contextlib.suppress(OSError):  # another user's
                                os.utime(entry.path)
                            used_ns = os.stat(entry.path).st_mtime_ns
                        yield _File(used_ns, state.st_size, entry.path)


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:  # not there, a file, or not to be read
        return


def _note(root: Path, total: int) -> None:
    with contextlib.suppress(files.WriteError):
        files.write_atomic(root / USAGE, b"%d\n" % total)
