"""f16 where the hardware computes it: sums, products, fused products and comparisons.

bf16 goes through f32, which rounds a fused product twice as its meaning says.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtypes import f16
from ..llvm.text import Function
from ..llvm.types import Ty

_WORDS = {
    **{name: f"f{name}" for name in ("add", "sub", "mul", "fma")},
    **{name: f"fcmp o{name}" for name in ("eq", "lt", "le", "gt", "ge")},
    "ne": "fcmp une",
}


def native_half(
    f: Function, flags: str, name: str, t: Ty, args: Sequence[str], fma: str = "llvm.fma.f16"
) -> str | None:
    """An op on f16 as such; None where it is none of these. fma: the intrinsic of that."""
    if t.dtype != f16 or name not in _WORDS:
        return None
    halves = [f.value(f"bitcast i16 {a} to half") for a in args]
    word = _WORDS[name]
    if word.startswith("fcmp"):
        return f.value(f"{word} half {halves[0]}, {halves[1]}")
    if name == "fma":
        result = f.call(fma, "half", *(("half", h) for h in halves))
    else:
        result = f.value(f"{word} {flags}half {halves[0]}, {halves[1]}")
    return f.value(f"bitcast half {result} to i16")
