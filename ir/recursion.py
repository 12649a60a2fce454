"""Room for programs that nest deeply: what walks them calls itself for each level."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = 12_000  # of Python: MAX_DEPTH statements of MAX_DEPTH expressions never need more


# The limit is the process's: of threads the last one that needs room gives it back.
_lock = threading.Lock()
_users, _before = 0, 0


@contextmanager
def deep() -> Iterator[None]:
    """Let functions call one another FRAMES deep; beyond it, as always, a RecursionError."""
    global _users, _before
    with _lock:
        if not _users:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, FRAMES))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                sys.setrecursionlimit(_before)
