"""The interpreter's artifact is the kernel IR text itself, before any pass."""

from __future__ import annotations

from ...ir.core import Kernel
from ...ir.text import print_kernel
from ..compile import Emitted, Options

SHARED_BYTES = None  # no limits of its own
INVOCATIONS = None


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The text form of the kernel; every kernel is supported."""
    return Emitted(print_kernel(kernel).encode(), kernel.name, sites=kernel.sites)


def digest_inputs() -> tuple[str, ...]:
    """No outside tool takes part."""
    return ()
