"""Matrix fragments as the registers of AMD's matrix instructions, WMMA and MFMA.

The instructions are given b as their first operand and a as their second, so that they make the
transposed sum. A lane then holds parts of one row of the accumulator, which is how it holds the
rows of a: on gfx12 and with MFMA an accumulator becomes the a of the next product where it is, and
rows are reduced by one or two exchanges.

Along the depth each lane holds neighbours, in the order in which they lie in memory. Which of them
one instruction takes does not matter, as it takes the same of a and of b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..core import Kernel, Op, Value
from ..dtypes import (
    DType,
    FragmentType,
    Type,
    VectorType,
    element_of,
    f16,
    f32,
    i8,
    i32,
    lanes_of,
    u32,
    with_element,
)
from ..ops.amd import FAMILIES
from .amd_products import Products, multiplies
from .float8_pairs import apart
from .fragment_layout import ZERO, Lane, Layout
from .fragment_operands import joined, product_kind
from .fragments import FragmentLowering, has_fragments

_ROW = Lane(0, 16, 1)
_TYPES = {"f16": f16, "f32": f32}
_SIGNS = 0x80808080  # of four bytes


@dataclass(frozen=True)
class AmdFragments:
    """Lower fragments to `amd_mma`, where the instructions do all of a kernel's products."""

    products: Products
    name: str = "amd_fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not has_fragments(kernel) or not multiplies(kernel, self.products):
            return kernel
        return _AmdLowering(kernel, self.products).run()


@lru_cache(512)
def held(t: FragmentType, family: str) -> Layout:
    """The elements of a lane: of one row of a, one column of b, one row of the sum."""
    if t.role == "row":
        return Layout(_ROW, ZERO, ((0, 0),))
    f = FAMILIES[family]
    if t.role == "acc":
        if family == "wmma11":  # every other column
            return Layout(_ROW, Lane(4, 2, 1), tuple((0, 2 * n) for n in range(f.sums)))
        return Layout(_ROW, Lane(4, f.apart, f.sums), tuple((0, n) for n in range(f.sums)))
    depth = t.columns if t.role == "a" else t.rows
    run = depth // f.apart
    along = Lane(4, f.apart, run) if f.apart > 1 else ZERO
    packed = max(1, 4 // t.element.bytes)
    if t.role == "a":
        return Layout(_ROW, along, tuple((0, k) for k in range(run)), packed)
    return Layout(along, _ROW, tuple((k, 0) for k in range(run)), packed)


class _AmdLowering(FragmentLowering):
    """An accumulator is one vector of its elements, an operand one of its words."""

    widest = 8

    def __init__(self, kernel: Kernel, products: Products) -> None:
        super().__init__(kernel)
        self.products = products
        self.wide: dict[Value, list[Value]] = {}  # operands in another type
        self.within: list[Op] | None = None  # the region where those are

    def layout(self, t: FragmentType) -> Layout:
        return held(t, self.products.family)

    def prepare(self, lane: Value) -> None:
        self.lane = lane

    # values

    def types(self, t: Type) -> tuple[Type, ...] | None:
        found = super().types(t)
        if found is None or len(found) == 1:
            return found
        return (VectorType(element_of(found[0]), len(found)),)

    def held(self, v: Value) -> list[Value]:
        return self.components(self.value(v))

    def hold(self, v: Value, parts: Sequence[Value]) -> None:
        self.set(v, joined(self.b, parts))

    def components(self, v: Value) -> list[Value]:
        count = lanes_of(v.type)
        return [self.b.emit("extract", v, lane=n) for n in range(count)] if count > 1 else [v]

    def pick(self, v: Value, start: int, count: int) -> Value:
        """Neighbours within a vector."""
        if count == lanes_of(v.type):
            return v
        if count == 1:
            return self.b.emit("extract", v, lane=start)
        return self.b.emit("shuffle", v, v, lanes=tuple(range(start, start + count)))

    def together(self, pieces: Sequence[Value]) -> Value:
        """Values of one type in a row, as one vector."""
        while len(pieces) > 1:
            if not isinstance(pieces[0].type, VectorType):
                return joined(self.b, pieces)
            lanes = tuple(range(2 * lanes_of(pieces[0].type)))
            pairs = zip(pieces[::2], pieces[1::2], strict=True)
            pieces = [self.b.emit("shuffle", a, b, lanes=lanes) for a, b in pairs]
        return pieces[0]

    # ops

    def elementwise(self, op: Op) -> None:
        """Of accumulators at once."""
        kinds = [v.type for v in (*op.operands, op.result) if isinstance(v.type, FragmentType)]
        if any(self.layout(t).packed > 1 for t in kinds):
            super().elementwise(op)
            return
        wanted = self.types(op.result.type)
        assert wanted is not None
        operands = [self.spread(self.value(v), lanes_of(wanted[0])) for v in op.operands]
        self.set(op.result, self.b.op(op.name, operands, dict(op.attrs), wanted).result)

    def spread(self, v: Value, count: int) -> Value:
        """A scalar for each of so many elements; a vector as it is."""
        if lanes_of(v.type) == count:
            return v
        return self.b.emit("splat", v, type=VectorType(element_of(v.type), count))

    def load(self, op: Op) -> None:
        t = op.result.type
        assert isinstance(t, FragmentType)
        packed = self.layout(t).packed
        places = [] if _swizzled(op) else self.reach(op, t)
        if not places or places[0][1] % packed or places[0][1] == 1:
            super().load(op)
            return
        memory, words = self.value(op.operands[0]), places[0][1] // packed
        whole = [self.b.emit("load", memory, index, lanes=width) for index, width in places]
        if packed > 1:
            kind = VectorType(u32, words) if words > 1 else u32
            whole = [self.b.emit("bitcast", v, type=kind) for v in whole]
        self.set(op.result, self.together(whole))

    def store(self, op: Op) -> None:
        value = op.operands[3]
        assert isinstance(value.type, FragmentType)
        if self.layout(value.type).packed > 1:
            super().store(op)
            return
        memory, whole, at = self.value(op.operands[0]), self.value(value), 0
        for index, width in self.reach(op, value.type):
            self.b.do("store", memory, index, self.pick(whole, at, width))
            at += width

    def role(self, op: Op) -> None:
        """An accumulator as an a: where it is, but on gfx11, whose lanes hold every other column:
        each gets the others from the other half of the wave."""
        if self.products.family != "wmma11":
            super().role(op)
            return
        upper = self.b.emit("ge", self.lane, self.k(16))
        own = self.elements(op.operands[0])
        found = []
        for one, two in zip(own[::2], own[1::2], strict=True):  # columns c and c + 2, or + 1 and 3
            mine = [one, two]
            t = element_of(one.type)
            if t.bits == 16:  # in one move
                pair = self.b.emit("bitcast", self.b.emit("vector", one, two), type=u32)
                moved = self.b.emit("bitcast", self.swapped(pair), type=VectorType(t, 2))
                theirs = self.components(moved)
            else:
                theirs = [self.swapped(v) for v in mine]
            for a, b in zip(mine, theirs, strict=True):
                found += [self.b.emit("select", upper, b, a), self.b.emit("select", upper, a, b)]
        self.settle(op.result, found)

    def swapped(self, v: Value) -> Value:
        return self.b.emit("subgroup_shuffle_xor", v, self.b.const(16, i32))

    # products

    def mma(self, op: Op) -> None:
        a, b, c = op.operands
        kinds = [element_of(v.type) for v in (a, b)]
        instead = self.products.instead(product_kind(kinds[0]))
        assert instead is not None
        if instead != product_kind(kinds[0]):
            wide = _TYPES[instead]
            left, right = (self.widened(v, wide) for v in (a, b))
            kinds = [wide, wide]
        else:
            left, right = (self.pieces(self.value(v), kinds[0]) for v in (a, b))
        total = self.value(c)
        narrow = element_of(total.type)
        if self.products.family == "mfma" or kinds[0] != f16:  # sums in f16 are WMMA's alone
            total = self.sum(total, f32 if narrow == f16 else narrow)
        if kinds[0].is_int and self.products.signed:
            total = self.bytes(kinds, left, right, total)
        else:
            total = self.product(kinds, right, left, total)
        self.set(op.result, self.sum(total, narrow))

    def sum(self, total: Value, t: DType) -> Value:
        """A sum in elements of another type."""
        kind = with_element(total.type, t)
        return total if total.type == kind else self.b.emit("convert", total, type=kind)

    def pieces(self, words: Value, kind: DType) -> list[Value]:
        """An operand as what its instructions take, words, one after the other."""
        if element_of(words.type) != u32:
            words = self.b.emit("bitcast", words, type=with_element(words.type, u32))
        count = self.words(kind)
        return [self.pick(words, n, count) for n in range(0, lanes_of(words.type), count)]

    def words(self, kind: DType) -> int:
        """Words of an operand of one instruction."""
        depth = dict(self.products.depths)[product_kind(kind)]
        return depth // FAMILIES[self.products.family].apart * kind.bits // 32

    def widened(self, v: Value, wide: DType) -> list[Value]:
        """An operand in another type, once for all products of a region."""
        if self.within is not self.b.ops:
            self.wide, self.within = {}, self.b.ops
        if v not in self.wide:
            kind = element_of(v.type)
            if kind.bits == 8 and wide == f16:
                found = self.halves(self.value(v), kind)
            else:
                parts = self.packed([self.cast(e, wide) for e in self.elements(v)])
                count = self.words(wide)
                found = [joined(self.b, parts[n : n + count]) for n in range(0, len(parts), count)]
            self.wide[v] = found
        return self.wide[v]

    def halves(self, words: Value, kind: DType) -> list[Value]:
        """Words of 8-bit floats as operands of f16: each has the even bytes of some words and the
        odd ones of the same."""
        count = self.words(f16)
        found = []
        for n in range(0, lanes_of(words.type), count // 2):
            even, odd = apart(self.b, self.pick(words, n, count // 2), kind)
            found.append(self.together([even, odd]))
        return found

    def bytes(
        self, kinds: list[DType], left: list[Value], right: list[Value], total: Value
    ) -> Value:
        """Products of bytes by an instruction for signed ones: u = s + 128, and 128 times the sum
        of the other operand's bytes is a product by -128, taken away."""
        signed = [i8, i8]
        first, second = (
            words if t.is_signed else [self.b.emit("xor", w, self.word(_SIGNS, w)) for w in words]
            for words, t in ((left, kinds[0]), (right, kinds[1]))
        )
        minus = [self.word(_SIGNS, w) for w in left]
        depth = len(left) * dict(self.products.depths)["i8"]
        if not any(t.is_signed for t in kinds):
            total = self.b.emit("add", total, self.b.const(128 * 128 * depth, total.type))
        total = self.product(signed, second, first, total)
        none = self.b.const(0, total.type)
        for unsigned, pair in ((kinds[0], (second, minus)), (kinds[1], (minus, first))):
            if not unsigned.is_signed:
                total = self.b.emit("sub", total, self.product(signed, *pair, none))
        return total

    def product(
        self, kinds: list[DType], first: list[Value], second: list[Value], total: Value
    ) -> Value:
        """Add a product whose operands, b and a, are these words of a lane, by instructions."""
        attrs = {
            "family": self.products.family,
            "a": kinds[1].name,
            "b": kinds[0].name,
            "depth": dict(self.products.depths)[product_kind(kinds[0])],
        }
        rounds = kinds[0] == f32 and self.products.rounds
        for pair in zip(first, second, strict=True):
            words = [self.rounded(v) for v in pair] if rounds else pair
            total = self.b.op("amd_mma", (*words, total), attrs).result
        return total

    def rounded(self, words: Value) -> Value:
        """f32 to eleven significant bits, ties away from zero, a NaN to a NaN."""
        kept = self.b.emit("and", words, self.word(0xFFFFE000, words))
        half = self.b.emit("and", words, self.word(0x1000, words))
        near = self.b.emit("add", kept, self.b.emit("add", half, half))
        size = self.b.emit("and", words, self.word(0x7FFFFFFF, words))
        odd = self.b.emit("gt", size, self.word(0x7F800000, words))
        return self.b.emit("select", odd, self.word(0x7FC00000, words), near)

    def word(self, bits: int, like: Value) -> Value:
        return self.b.const(bits, like.type)

    def packed(self, elements: list[Value]) -> list[Value]:
        """Elements as registers."""
        per = 32 // element_of(elements[0].type).bits
        if per == 1:
            return [self.b.emit("bitcast", e, type=u32) for e in elements]
        runs = [elements[n : n + per] for n in range(0, len(elements), per)]
        return [self.b.emit("bitcast", self.b.emit("vector", *run), type=u32) for run in runs]


def _swizzled(op: Op) -> bool:
    return len(op.operands) == 4
