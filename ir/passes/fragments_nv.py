"""Matrix fragments as the registers of NVIDIA's mma.sync, with ldmatrix from workgroup memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Value
from ..dtypes import FragmentType, MemType, Space, VectorType, f16, u32
from ..ops.fragment_rules import PRODUCTS
from .fragment_layout import Layout, mma_sync
from .fragments import FragmentLowering, has_fragments

SUBGROUP = 32
_HALVES = 2  # products of 8 columns that make up one of 16


@dataclass(frozen=True)
class NvFragments:
    """Lower fragments to `nv_mma` and `nv_ldmatrix` (sm_80 and later), subgroups of 32.

    ldmatrix: False loads element by element, so that every access can be checked.
    """

    ldmatrix: bool = True
    name: str = "nv_fragments"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not has_fragments(kernel) or kernel.subgroup != SUBGROUP:
            return kernel
        return _NvLowering(kernel, self.ldmatrix).run()


class _NvLowering(FragmentLowering):
    def __init__(self, kernel: Kernel, ldmatrix: bool) -> None:
        super().__init__(kernel)
        self.ldmatrix = ldmatrix
        self.rows: dict[bool, tuple[Value, Value]] = {}

    def layout(self, t: FragmentType) -> Layout:
        return mma_sync(t)

    def prepare(self, lane: Value) -> None:
        """Row and column, within a 16 x 16 block, of the 8 elements that a lane points ldmatrix at.

        The four 8 x 8 matrices go down the rows first, or (True) along them first.
        """

        def bit(shift: int) -> Value:
            moved = self.b.emit("shr", lane, self.k(shift))
            one = self.b.emit("and", moved, self.k(1))
            return self.b.emit("mul", one, self.k(8))

        low = self.b.emit("and", lane, self.k(7))
        third, fourth = bit(3), bit(4)
        self.rows = {
            False: (self.b.emit("add", low, third), fourth),
            True: (self.b.emit("add", low, fourth), third),
        }

    def load(self, op: Op) -> None:
        t, memory = op.result.type, op.operands[0].type
        assert isinstance(t, FragmentType)
        assert isinstance(memory, MemType)
        shared = memory.space is Space.WORKGROUP and memory.element.bits == 16
        if not (self.ldmatrix and shared and t.role in ("a", "b")):
            super().load(op)
            return
        # Lanes hold neighbours along the columns of a and the rows of b. Where these lie apart in
        # memory, the matrices are transposed on the way.
        layout = str(op.attr("layout"))
        transposed = (t.role == "a") != (layout == "row")
        line, along = self.rows[layout == "column"]
        index, stride = (self.cast(self.value(v), self.index) for v in op.operands[1:3])
        inner = self.b.emit("mul", line, stride)  # what a loop leaves alone, apart
        if len(op.operands) == 4:  # the first row is a multiple of 8, the column one of 16
            turn = self.b.emit("mul", self.b.emit("and", line, self.k(7)), self.k(8))
            turn = self.b.emit("xor", turn, along)
            along = self.b.emit("xor", self.cast(self.value(op.operands[3]), self.index), turn)
        index = self.b.emit("add", index, self.b.emit("add", inner, along))
        source = self.value(op.operands[0])
        words = self.b.emit("nv_ldmatrix", source, index, transposed=transposed)
        self.set(op.result, *[self.b.emit("extract", words, lane=n) for n in range(4)])

    def mma(self, op: Op) -> None:
        a, b, c = op.operands
        kinds = [v.type.element for v in op.operands if isinstance(v.type, FragmentType)]
        depth = PRODUCTS[kinds[0].name, kinds[1].name, kinds[2].name]
        attrs = {"shape": f"m16n8k{depth}", "a": kinds[0].name, "b": kinds[1].name}
        left = self.b.emit("vector", *self.words(a))
        right, total = self.words(b), list(self.all(c))
        per = len(total) // _HALVES
        done: list[Value] = []
        for n in range(_HALVES):
            pair = self.b.emit("vector", *right[2 * n : 2 * n + 2])
            part = self.packed(total[n * per : (n + 1) * per])
            result = self.b.op("nv_mma", (left, pair, part), attrs).result
            done += self.unpacked(result, c)
        self.set(op.result, *done)

    def words(self, v: Value) -> list[Value]:
        """The registers of an operand."""
        return [p if p.type == u32 else self.b.emit("bitcast", p, type=u32) for p in self.all(v)]

    def packed(self, parts: list[Value]) -> Value:
        """Elements of a sum as registers."""
        if parts[0].type != f16:
            return self.b.emit("vector", *parts)
        pairs = [self.b.emit("vector", *parts[n : n + 2]) for n in range(0, len(parts), 2)]
        return self.b.emit("vector", *[self.b.emit("bitcast", p, type=u32) for p in pairs])

    def unpacked(self, result: Value, c: Value) -> list[Value]:
        assert isinstance(result.type, VectorType)
        parts = [self.b.emit("extract", result, lane=n) for n in range(result.type.lanes)]
        assert isinstance(c.type, FragmentType)
        if c.type.element != f16:
            return parts
        pairs = [self.b.emit("bitcast", p, type=VectorType(f16, 2)) for p in parts]
        return [self.b.emit("extract", p, lane=n) for p in pairs for n in range(2)]
