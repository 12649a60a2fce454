"""NaNs through expanded functions on targets whose drivers may take them for absent.

Without float controls a Vulkan driver may fold `select(x < c, x, c)` into a minimum, which loses a
NaN (NVIDIA's does). Where a target does not promise to keep them, the result for NaN operands is
chosen by a test of bits (`isnan`, native there), which no driver folds.
"""

from __future__ import annotations

import math

from ..core import Value
from ..dtypes import element_of
from .context import Context


def keep_nans(c: Context, name: str, args: tuple[Value, ...], value: Value) -> Value:
    """`value`, the expansion of `name` on `args`, with what NaN operands give chosen apart.

    A NaN operand gives a NaN, but pow(1, NaN) = pow(NaN, 0) = 1 and hypot(inf, NaN) = inf, as in
    C (Annex F).
    """
    b = c.b
    tests = [b.emit("isnan", a) for a in args if element_of(a.type).is_float]
    nan = tests[0] if len(tests) == 1 else b.emit("or", tests[0], tests[1])
    result = b.emit("select", nan, b.const(math.nan, value.type), value)
    if name == "pow":
        base, exponent = args
        one = b.const(1.0, value.type)
        is_one = b.emit("eq", base, one)
        is_zero = b.emit("eq", exponent, b.const(0.0, value.type))
        return b.emit("select", b.emit("or", is_one, is_zero), one, result)
    if name == "hypot":
        infinite = b.emit("or", b.emit("isinf", args[0]), b.emit("isinf", args[1]))
        return b.emit("select", infinite, b.const(math.inf, value.type), result)
    return result
