"""Library functions that are written in the kernel language and inlined where called."""

from __future__ import annotations

from .decorator import device
from .functions import TABLE

select, fmod, copysign, floor, trunc = (
    TABLE[n] for n in ("select", "fmod", "copysign", "floor", "trunc")
)


@device
def float_mod(a, b):
    """Python's a % b for floats: the sign of b."""
    r = fmod(a, b)
    return select(r == 0.0, copysign(r, b), select((r < 0.0) != (b < 0.0), r + b, r))
