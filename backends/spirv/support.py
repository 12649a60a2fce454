"""What SPIR-V for Vulkan does natively, for legalization."""

from __future__ import annotations

from ...ir.core import Kernel
from ...ir.passes.support import OPTIONAL, Support
from .arithmetic import APPROXIMATE

# Ops that `ir.maths` and the lowerings of `ir.passes` express better than a driver's builtin:
# Vulkan's own transcendental functions are off by tens to thousands of ulp.
_EXPANDED = APPROXIMATE | {
    "expm1", "log10", "log1p", "erf", "erfc", "cbrt", "gamma", "lgamma", "hypot", "fmod", "ldexp",
}  # fmt: skip

EXACT = Support(native=OPTIONAL - _EXPANDED, max_lanes=4)
FAST = Support(
    native=(OPTIONAL - _EXPANDED) | {f"{name}:f32" for name in sorted(APPROXIMATE)}, max_lanes=4
)


def support(kernel: Kernel) -> Support:
    """The native ops of a kernel: under `fast` "approximate" the driver's own functions too."""
    return FAST if "approximate" in kernel.fast else EXACT
