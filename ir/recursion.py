"""Room for programs that nest deeply: what walks them calls itself for each level."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = 12_000  # of Python: MAX_DEPTH statements of MAX_DEPTH expressions never need more


@contextmanager
def deep() -> Iterator[None]:
    """Let functions call one another FRAMES deep; beyond it, as always, a RecursionError."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
