"""What SPIR-V for Vulkan does natively, for legalization."""

from __future__ import annotations

from dataclasses import replace

from ...ir.core import Kernel
from ...ir.passes.support import ALL, NARROW_ROUNDINGS, OPTIONAL, ROUNDINGS, Support
from .arithmetic import APPROXIMATE

# Ops that `ir.maths` and the lowerings of `ir.passes` express better than a driver's builtin:
# Vulkan's own transcendental functions are off by tens to thousands of ulp.
_EXPANDED = APPROXIMATE | {
    "expm1", "log10", "log1p", "erf", "erfc", "cbrt", "gamma", "lgamma", "hypot", "fmod", "ldexp",
}  # fmt: skip

# 8- and 16-bit integers are held in 32 bits and wrapped where it shows: that needs storage features
# only, and NVIDIA's compiler (580.159) forgets to wrap a negated i8.
_TYPES = ALL - {"i8", "u8", "i16", "u16"}

EXACT = Support(
    arithmetic=_TYPES,
    native=(OPTIONAL - _EXPANDED - ROUNDINGS) | NARROW_ROUNDINGS,
    max_lanes=4,
    keeps_nan=False,
    divides=32,
)
FAST = replace(EXACT, native=EXACT.native | {f"{name}:f32" for name in APPROXIMATE})


def support(kernel: Kernel, matrices: bool = False) -> Support:
    """The native ops of a kernel: under `fast` "approximate" the driver's own functions too.
    matrices: bytes are kept as such, for cooperative matrices are loaded from them."""
    found = FAST if "approximate" in kernel.fast else EXACT
    return replace(found, arithmetic=found.arithmetic | {"i8", "u8"}) if matrices else found
