"""Matrix fragments as the registers of NVIDIA's mma.sync, with ldmatrix from workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Value
from ..dtypes import DType, FragmentType, MemType, Space, VectorType, f16, u32
from .fragment_layout import Layout, mma_sync
from .fragment_operands import as_words, halves, joined, product_kind, product_kinds
from .fragments import FragmentLowering, has_fragments

SUBGROUP = 32
_HALVES = 2  # products of 8 columns that make up one of 16

# What one instruction multiplies, by the kind of its operands: rows of a, and the depth.
Products = tuple[tuple[str, int, int], ...]
TURING: Products = (("f16", 16, 8), ("i8", 8, 16))
AMPERE: Products = (("f16", 16, 16), ("bf16", 16, 16), ("f32", 16, 8), ("i8", 16, 32))
ADA: Products = (*AMPERE, ("f8", 16, 32))


def multiplies(kernel: Kernel, products: Products) -> bool:
    """Whether these instructions do all products of a kernel; those of 8-bit floats may be done as
    products of f16, which holds every value of theirs."""
    known = {kind for kind, _, _ in products}
    found = product_kinds(kernel)
    return found <= (known | {"f8"} if "f16" in known else known)


@dataclass(frozen=True)
class NvFragments:
    """Lower fragments to `nv_mma` and `nv_ldmatrix` (sm_75 and later), subgroups of 32.

    products: the instructions that there are. ldmatrix: False loads element by element, so that
    every access can be checked.
    """

    products: Products = AMPERE
    ldmatrix: bool = True
    name: str = "nv_fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not has_fragments(kernel) or kernel.subgroup != SUBGROUP:
            return kernel
        return _NvLowering(kernel, self).run()


class _NvLowering(FragmentLowering):
    def __init__(self, kernel: Kernel, chosen: NvFragments) -> None:
        super().__init__(kernel)
        self.ldmatrix = chosen.ldmatrix
        self.products = {kind: (rows, depth) for kind, rows, depth in chosen.products}
        self.rows: dict[bool, tuple[Value, Value]] = {}

    def layout(self, t: FragmentType) -> Layout:
        return mma_sync(t)

    def prepare(self, lane: Value) -> None:
        """Line, and half of its 32 bytes, of what a lane points ldmatrix at in a block of 16 lines.

        The four matrices of 8 lines x 16 bytes go down the lines first, or (True) along them.
        """

        def bit(shift: int) -> Value:
            moved = self.b.emit("shr", lane, self.k(shift))
            return self.b.emit("and", moved, self.k(1))

        low = self.b.emit("and", lane, self.k(7))
        third, fourth = bit(3), bit(4)
        eight = self.k(8)
        self.rows = {
            False: (self.b.emit("add", low, self.b.emit("mul", third, eight)), fourth),
            True: (self.b.emit("add", low, self.b.emit("mul", fourth, eight)), third),
        }

    def load(self, op: Op) -> None:
        t, memory = op.result.type, op.operands[0].type
        assert isinstance(t, FragmentType)
        assert isinstance(memory, MemType)
        # Lanes hold neighbours along the columns of a and the rows of b. Where these lie apart in
        # memory, the matrices are transposed on the way, which takes elements of 16 bits.
        layout = str(op.attr("layout"))
        transposed = (t.role == "a") != (layout == "row")
        narrow = memory.element.bits == 16 or (memory.element.bits == 8 and not transposed)
        shared = memory.space is Space.WORKGROUP and narrow
        if not (self.ldmatrix and shared and t.role in ("a", "b")):
            super().load(op)
            return
        unit = self.k(16 // memory.element.bytes)  # elements of a line of a matrix
        line, along = self.rows[layout == "column"]
        along = self.b.emit("mul", along, unit)
        index, stride = (self.cast(self.value(v), self.index) for v in op.operands[1:3])
        inner = self.b.emit("mul", line, stride)  # what a loop leaves alone, apart
        if len(op.operands) == 4:  # the first row is a multiple of 8, the column one of 16
            turn = self.b.emit("mul", self.b.emit("and", line, self.k(7)), unit)
            column = self.cast(self.value(op.operands[3]), self.index)
            if memory.element.bits == 16:  # half a block lies below the column's bits
                along = self.b.emit("xor", column, self.b.emit("xor", turn, along))
            else:
                along = self.b.emit("xor", self.b.emit("add", column, along), turn)
        index = self.b.emit("add", index, self.b.emit("add", inner, along))
        source = self.value(op.operands[0])
        words = self.b.emit("nv_ldmatrix", source, index, transposed=transposed)
        self.set(op.result, *[self.b.emit("extract", words, lane=n) for n in range(4)])

    def mma(self, op: Op) -> None:
        a, b, c = op.operands
        kinds = [v.type.element for v in (a, b) if isinstance(v.type, FragmentType)]
        left, right = (as_words(self.b, self.all(v)) for v in (a, b))
        total = list(self.all(c))
        per = len(total) // _HALVES
        done: list[Value] = []
        for n in range(_HALVES):
            columns = right[2 * n : 2 * n + 2]
            done += self.product(kinds, left, columns, total[n * per : (n + 1) * per])
        self.set(op.result, *done)

    def product(
        self, kinds: list[DType], left: list[Value], right: list[Value], total: list[Value]
    ) -> list[Value]:
        """16 rows by 8 columns: a register of a for each half of the rows, then of the depth, one
        of b for each half of the depth; the sums of the upper rows, then of the lower ones."""
        if product_kind(kinds[0]) not in self.products:  # of 8-bit floats
            first, second = self.widened(left, kinds[0]), self.widened(right, kinds[1])
            for n in range(2):  # in another order along the depth, the same for a and b
                four = [first[2 * n][0], first[2 * n + 1][0], first[2 * n][1], first[2 * n + 1][1]]
                total = self.product([f16, f16], four, second[n], total)
            return total
        rows, depth = self.products[product_kind(kinds[0])]
        shape = f"m{rows}n8k{depth}"
        if depth * kinds[0].bytes == 32:
            return self.instruction(shape, kinds, left, right, total)
        for n in range(2):
            if rows == 16:
                pair = left[2 * n : 2 * n + 2]
                total = self.instruction(shape, kinds, pair, [right[n]], total)
                continue
            halves = [
                self.instruction(shape, kinds, [one], [right[n]], total[2 * r : 2 * r + 2])
                for r, one in enumerate(left[2 * n : 2 * n + 2])
            ]
            total = [v for half in halves for v in half]
        return total

    def instruction(
        self,
        shape: str,
        kinds: list[DType],
        left: list[Value],
        right: list[Value],
        total: list[Value],
    ) -> list[Value]:
        """One nv_mma on registers of a, b and elements of the sum."""
        attrs = {"shape": shape, "a": kinds[0].name, "b": kinds[1].name}
        operands = (joined(self.b, left), joined(self.b, right), self.packed(total))
        return self.unpacked(self.b.op("nv_mma", operands, attrs).result, total[0].type == f16)

    def widened(self, words: list[Value], t: DType) -> list[list[Value]]:
        """Four 8-bit floats a register as two registers of f16."""
        found = []
        for word in words:
            upper = self.e("shr", word, self.w(8))
            first = self.e("or", self.e("and", word, self.w(0xFF)), self.moved(word, 0xFF00, 8))
            last = self.e("and", self.e("shr", upper, self.w(8)), self.w(0xFF))
            second = self.e("or", last, self.e("and", upper, self.w(0xFF0000)))
            found.append([halves(self.b, pair, t) for pair in (first, second)])
        return found

    def e(self, name: str, *operands: Value) -> Value:
        return self.b.emit(name, *operands)

    def w(self, number: int) -> Value:
        return self.b.const(number, u32)

    def moved(self, word: Value, mask: int, up: int) -> Value:
        return self.e("shl", self.e("and", word, self.w(mask)), self.w(up))

    def packed(self, parts: list[Value]) -> Value:
        """Elements of a sum as registers."""
        if parts[0].type != f16:
            return self.b.emit("vector", *parts)
        pairs = [self.b.emit("vector", *parts[n : n + 2]) for n in range(0, len(parts), 2)]
        return self.b.emit("vector", *[self.b.emit("bitcast", p, type=u32) for p in pairs])

    def unpacked(self, result: Value, pairs: bool) -> list[Value]:
        """The elements of a sum; pairs: a register holds two of f16."""
        assert isinstance(result.type, VectorType)
        parts = [self.b.emit("extract", result, lane=n) for n in range(result.type.lanes)]
        if not pairs:
            return parts
        halves = [self.b.emit("bitcast", p, type=VectorType(f16, 2)) for p in parts]
        return [self.b.emit("extract", p, lane=n) for p in halves for n in range(2)]
