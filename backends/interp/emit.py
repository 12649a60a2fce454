"""The interpreter's artifact is the kernel IR text itself, before any pass."""

from __future__ import annotations

from ...ir.core import Kernel
from ...ir.extensions import used
from ...ir.ops.nv import FEATURE
from ...ir.text import print_kernel
from ..compile import Emitted, Options

SHARED_BYTES = None  # no limits of its own
INVOCATIONS = None
EXTENSIONS = frozenset(FEATURE.values())


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The text form of the kernel; every kernel is supported."""
    requires = tuple(sorted(used(kernel)))
    return Emitted(
        print_kernel(kernel).encode(), kernel.name, requires=requires, sites=kernel.sites
    )
