"""Which lanes are active. None stands for all of them, known when the kernel is compiled.

With mask registers (AVX-512) a mask is a vector of bits. Elsewhere it is kept in 32-bit lanes, all
ones or all zeros: LLVM carries vectors of bits across blocks in a form that costs more.
"""

from __future__ import annotations

from ...ir.core import Op, Value
from ..llvm.text import Function
from .lanes import SCALAR, Lanes, splat

Mask = str | None


class Masks:
    """Operations on masks of a given width."""

    def __init__(self, f: Function, width: int, bits: bool, native: int = 0) -> None:
        self.f, self.width, self.bits = f, width, bits
        self.bools = f"<{width} x i1>"
        self.type = self.bools if bits else f"<{width} x i32>"
        self.whole = "splat (i1 true)" if bits else "splat (i32 -1)"
        self.none = "zeroinitializer"
        blends = not bits and width == native
        self.blendable = {f"<{width} x {t}>" for t in ("float", "i32")} if blends else set()

    def from_bools(self, bools: str) -> str:
        """A mask of the lanes where a vector of bits is set."""
        return bools if self.bits else self.f.value(f"sext {self.bools} {bools} to {self.type}")

    def to_bools(self, mask: Mask) -> str:
        """A mask as a vector of bits."""
        if mask is None:
            return "splat (i1 true)"
        if self.bits:
            return mask
        return self.f.value(f"icmp slt {self.type} {mask}, zeroinitializer")

    def value(self, mask: Mask) -> str:
        """A mask as an operand."""
        return self.whole if mask is None else mask

    def both(self, a: Mask, b: Mask) -> Mask:
        """Lanes in both masks."""
        if a is None or b is None:
            return b if a is None else a
        return self.f.value(f"and {self.type} {a}, {b}")

    def without(self, a: Mask, b: str) -> str:
        """Lanes in `a` that are not in `b`."""
        inverse = self.f.value(f"xor {self.type} {b}, {self.whole}")
        return self.value(self.both(a, inverse))

    def any(self, mask: Mask) -> str:
        """Whether a lane is active."""
        if mask is None:
            return "true"
        word = f"i{self.width if self.bits else 32 * self.width}"
        bits = self.f.value(f"bitcast {self.type} {mask} to {word}")
        return self.f.value(f"icmp ne {word} {bits}, 0")

    def bits_of(self, bools: str) -> str:
        """A vector of bits as one integer of `width` bits."""
        return self.f.value(f"bitcast {self.bools} {bools} to i{self.width}")

    def all_bools(self, bools: str) -> str:
        """Whether every bit of a vector is set."""
        return self.f.value(f"icmp eq i{self.width} {self.bits_of(bools)}, -1")

    def blend(self, mask: Mask, type_: str, new: str, old: str) -> str:
        """`new` in active lanes, `old` in the others."""
        if mask is None:
            return new
        if type_ in self.blendable:
            return self._blend_by_sign(mask, type_, new, old)
        return self.f.value(
            f"select {self.bools} {self.to_bools(mask)}, {type_} {new}, {type_} {old}"
        )

    def _blend_by_sign(self, mask: str, type_: str, new: str, old: str) -> str:
        """The instruction that selects by sign bits: written as itself, or LLVM would take the
        mask apart into bits and put it together again."""
        f, real = self.f, f"<{self.width} x float>"
        sign, a, b = (
            v if t == real else f.value(f"bitcast {t} {v} to {real}")
            for t, v in ((self.type, mask), (type_, old), (type_, new))
        )
        name = "llvm.x86.sse41.blendvps" if self.width == 4 else "llvm.x86.avx.blendv.ps.256"
        out = f.call(name, real, (real, a), (real, b), (real, sign))
        return out if type_ == real else f.value(f"bitcast {real} {out} to {type_}")


def mask_of(lanes: Lanes, masks: Masks, defs: dict[int, Op], value: Value, depth: int = 4) -> str:
    """A bool value as a mask.

    Where masks are lanes of integers, `and` and `or` are done on them: a uniform operand in every
    bit of a vector of bits costs LLVM a conversion each way.
    """
    op = defs.get(value.id)
    known = op is not None and all(v.id in lanes.held for v in op.operands)
    if not masks.bits and known and depth and op and op.name in ("and", "or"):
        a, b = (mask_of(lanes, masks, defs, v, depth - 1) for v in op.operands)
        return masks.f.value(f"{op.name} {masks.type} {a}, {b}")
    if not masks.bits and lanes.form(value) == SCALAR and lanes.scalar(value).startswith("%"):
        word = masks.f.value(f"sext i1 {lanes.scalar(value)} to i32")
        return splat(masks.f, word, "i32", masks.width)
    return masks.from_bools(lanes.vector(value))
