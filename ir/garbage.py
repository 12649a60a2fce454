"""Python's cycle collector kept out of work that makes many objects and hardly any cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the cycle collector, as a context or as a decorator: tracing and compiling make some
    ten thousand objects that live as long as they do, and it would look at all of them for nothing
    every few hundred."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
