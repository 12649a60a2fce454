"""Matrix fragments as the registers of AMD's matrix instructions, WMMA and MFMA.

The instructions are given b as their first operand and a as their second, so that they make the
transposed sum. A lane then holds parts of one row of the accumulator, which is how it holds the
rows of a: on gfx12 and with MFMA an accumulator becomes the a of the next product where it is, and
rows are reduced by one or two exchanges.

Along the depth each lane holds neighbours, in the order in which they lie in memory. Which of them
one instruction takes does not matter, as it takes the same of a and of b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

from ..core import Kernel, Op, Value
from ..dtypes import DType, FragmentType, VectorType, element_of, f16, f32, i8, i32, u32
from ..ops.amd import FAMILIES
from .fragment_layout import ZERO, Lane, Layout
from .fragment_operands import apart, as_words, joined, product_kind, product_kinds
from .fragments import FragmentLowering, has_fragments

# The depth of one instruction, by the kind of its operands (`product_kind`).
Depths = tuple[tuple[str, int], ...]
_ROW = Lane(0, 16, 1)
# What holds all values of a kind, and can stand in for it.
_WIDER = {"f8": ("f16", "f32"), "f16": ("f32",), "bf16": ("f32",)}
_TYPES = {"f16": f16, "f32": f32}
_SIGNS = 0x80808080  # of four bytes


@dataclass(frozen=True)
class Products:
    """The matrix instructions of a processor. family: as `ir.ops.amd` has it. signed: bytes are
    signed only. rounds: products of f32 round their operands in a way that is not documented.
    flushes: of kinds that take denormals for zero, which only matters where f32 does not. paired:
    of types that an instruction of twice the depth multiplies in the same time."""

    family: str
    depths: Depths
    signed: bool = False
    rounds: bool = False
    flushes: Depths = ()
    paired: Depths = ()

    def flushed(self) -> Products:
        """Those for a kernel whose denormals may be zero."""
        return replace(self, depths=(*self.flushes, *self.depths), flushes=())

    @property
    def size(self) -> int:
        """Lanes of the subgroups that multiply."""
        return FAMILIES[self.family].size

    def instead(self, kind: str) -> str | None:
        """The kind whose instruction does a product; None where none can."""
        known = dict(self.depths)
        return next((k for k in (kind, *_WIDER.get(kind, ())) if k in known), None)


_MFMA: Depths = (("f16", 16), ("bf16", 16), ("f32", 4), ("i8", 32))
_mfma = partial(Products, "mfma", signed=True)
PRODUCTS = {
    "wmma11": Products("wmma11", (("f16", 16), ("bf16", 16), ("i8", 16))),
    "wmma12": Products("wmma12", (("f16", 16), ("bf16", 16), ("i8", 16), ("f8", 16))),
    "mfma908": _mfma((("f16", 16), ("bf16", 8), ("f32", 4), ("i8", 16))),
    # Denormals of f16 are not small for f16.
    "mfma90a": _mfma((("bf16", 16), ("f32", 4), ("i8", 16)), flushes=(("f16", 16),)),
    "mfma94": _mfma(_MFMA),
    # The 8-bit floats of gfx942 are others than the language's, those of gfx950 are the same.
    "mfma942": _mfma((("f16", 16), ("bf16", 16), ("f32", 8), ("i8", 32)), rounds=True),
    "mfma950": _mfma((*_MFMA, ("f8", 32)), paired=(("f16", 16), ("bf16", 16), ("i8", 32))),
}


def multiplies(kernel: Kernel, products: Products) -> bool:
    """Whether these instructions do all products of a kernel."""
    fits = kernel.subgroup == products.size
    return fits and all(products.instead(kind) for kind in product_kinds(kernel))


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
    def __init__(self, kernel: Kernel, products: Products) -> None:
        super().__init__(kernel)
        self.products = products
        self.wide: dict[Value, list[Value]] = {}  # operands in another type
        self.within: list[Op] | None = None  # the region where those are

    def layout(self, t: FragmentType) -> Layout:
        return held(t, self.products.family)

    def prepare(self, lane: Value) -> None:
        self.lane = lane

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
                theirs = [self.b.emit("extract", moved, lane=n) for n in range(2)]
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
            left, right = (as_words(self.b, self.all(v)) for v in (a, b))
        total = list(self.all(c))
        narrow = total[0].type
        if self.products.family == "mfma" or kinds[0] != f16:  # sums in f16 are WMMA's alone
            total = [self.cast(v, f32) if narrow == f16 else v for v in total]
        if kinds[0].is_int and self.products.signed:
            total = self.bytes(kinds, left, right, total)
        else:
            total = self.product(kinds, right, left, total)
        assert isinstance(narrow, DType)
        self.set(op.result, *[self.cast(v, narrow) for v in total])

    def widened(self, v: Value, wide: DType) -> list[Value]:
        """The words of an operand in another type, once for all products of a region."""
        if self.within is not self.b.ops:
            self.wide, self.within = {}, self.b.ops
        if v not in self.wide:
            kind = element_of(v.type)
            if kind.bits == 8 and wide == f16:
                self.wide[v] = [one for word in self.all(v) for one in apart(self.b, word, kind)]
            else:
                self.wide[v] = self.packed([self.cast(e, wide) for e in self.elements(v)])
        return self.wide[v]

    def bytes(
        self, kinds: list[DType], left: list[Value], right: list[Value], total: list[Value]
    ) -> list[Value]:
        """Products of bytes by an instruction for signed ones: u = s + 128, and 128 times the sum
        of the other operand's bytes is a product by -128, taken away."""
        signed = [i8, i8]
        first, second = (
            words if t.is_signed else [self.b.emit("xor", w, self.word(_SIGNS)) for w in words]
            for words, t in ((left, kinds[0]), (right, kinds[1]))
        )
        minus = [self.word(_SIGNS)] * len(left)
        depth = len(left) * 4 * FAMILIES[self.products.family].apart
        if not any(t.is_signed for t in kinds):
            more = self.b.const(128 * 128 * depth, i32)
            total = [self.b.emit("add", v, more) for v in total]
        total = self.product(signed, second, first, total)
        none = [self.b.const(0, i32)] * len(total)
        for unsigned, pair in ((kinds[0], (second, minus)), (kinds[1], (minus, first))):
            if not unsigned.is_signed:
                sums = self.product(signed, *pair, none)
                total = [self.b.emit("sub", v, s) for v, s in zip(total, sums, strict=True)]
        return total

    def product(
        self, kinds: list[DType], first: list[Value], second: list[Value], total: list[Value]
    ) -> list[Value]:
        """Add a product whose operands, b and a, are these words of a lane."""
        depth = dict(self.products.depths)[product_kind(kinds[0])]
        count = depth // FAMILIES[self.products.family].apart * kinds[0].bits // 32
        attrs = {
            "family": self.products.family,
            "a": kinds[1].name,
            "b": kinds[0].name,
            "depth": depth,
        }
        if kinds[0] == f32 and self.products.rounds:
            first, second = ([self.rounded(w) for w in words] for words in (first, second))
        whole = self.b.emit("vector", *total)
        for n in range(0, len(first), count):
            pair = [joined(self.b, words[n : n + count]) for words in (first, second)]
            whole = self.b.op("amd_mma", (*pair, whole), attrs).result
        return [self.b.emit("extract", whole, lane=n) for n in range(len(total))]

    def rounded(self, word: Value) -> Value:
        """An f32 to eleven significant bits, ties away from zero, a NaN to a NaN."""
        kept = self.b.emit("and", word, self.word(0xFFFFE000))
        half = self.b.emit("and", word, self.word(0x1000))
        near = self.b.emit("add", kept, self.b.emit("add", half, half))
        size = self.b.emit("and", word, self.word(0x7FFFFFFF))
        odd = self.b.emit("gt", size, self.word(0x7F800000))
        return self.b.emit("select", odd, self.word(0x7FC00000), near)

    def word(self, bits: int) -> Value:
        return self.b.const(bits, u32)

    def packed(self, elements: list[Value]) -> list[Value]:
        """Elements as registers."""
        per = 32 // element_of(elements[0].type).bits
        if per == 1:
            return [self.b.emit("bitcast", e, type=u32) for e in elements]
        runs = [elements[n : n + per] for n in range(0, len(elements), per)]
        return [self.b.emit("bitcast", self.b.emit("vector", *run), type=u32) for run in runs]
