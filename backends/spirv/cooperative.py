"""Matrix fragments as cooperative matrices (SPV_KHR_cooperative_matrix), where a kernel asks for
them by the constexpr COOPERATIVE.

Which invocation holds an element is the driver's secret, so that what needs it is refused: rows,
coordinates, roles, and functions of elements beyond arithmetic. Such kernels are built without
COOPERATIVE as well, and lowered to plain code.

The extension brings the Vulkan memory model: accesses to what invocations share are marked, and
barriers make them available and visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.core import Kernel, Op, Value, walk
from ...ir.dtypes import FragmentType
from ...ir.passes.fragments import has_fragments
from .opcodes import Cap, MemoryAccess, Scope
from .opcodes import Op as S

if TYPE_CHECKING:
    from .emitter import Emitter
    from .memory import Memories

_USES = {"a": 0, "b": 1, "acc": 2}
_ARITHMETIC = {"add": S.F_ADD, "sub": S.F_SUB, "mul": S.F_MUL, "div": S.F_DIV, "neg": S.F_NEGATE}
_ELEMENTS = ("f16", "f32")


def wanted(kernel: Kernel) -> bool:
    """Whether a kernel asks for cooperative matrices and has fragments."""
    return bool(dict(kernel.constexprs).get("COOPERATIVE")) and has_fragments(kernel)


def is_fragment(value: Value) -> bool:
    return isinstance(value.type, FragmentType)


def has_fragment(op: Op) -> bool:
    """Whether an op takes or gives a fragment."""
    return any(map(is_fragment, op.operands)) or any(map(is_fragment, op.results))


def refused(kernel: Kernel) -> tuple[Op, str] | None:
    """The first op that cooperative matrices cannot express, and why; None if there is none."""
    for op in walk(kernel.body):
        if op.regions or op.name in ("yield", "continue", "break"):
            continue
        fragments = [v.type for v in (*op.operands, *op.results) if is_fragment(v)]
        if not fragments or op.name in ("print", "breakpoint"):
            continue
        if op.name == "fragment_load" and len(op.operands) == 4:
            return op, "rows that are swizzled have no one stride"
        if op.name not in METHODS and op.name not in _ARITHMETIC:
            return op, f"{op.name} of a fragment needs to know which lane holds an element"
        for t in fragments:
            assert isinstance(t, FragmentType)
            if t.element.name not in _ELEMENTS or t.role == "row" or 16 not in (t.rows, t.columns):
                return op, f"no cooperative matrix for {t}"
            if t.element.name == "f32" and t.role != "acc":
                return op, f"no cooperative matrix for {t}"
    return None


def declare(e: Emitter) -> None:
    """Switch a module to the Vulkan memory model and cooperative matrices."""
    module = e.module
    module.capabilities |= {
        Cap.VULKAN_MEMORY_MODEL,
        Cap.VULKAN_MEMORY_MODEL_DEVICE_SCOPE,
        Cap.COOPERATIVE_MATRIX,
    }
    module.vulkan_memory = True
    module.extension_in("SPV_KHR_vulkan_memory_model", 0x00010500)
    module.extensions.add("SPV_KHR_cooperative_matrix")
    e.requires |= {"cooperative_matrix", "memory_model", "f16"}


def matrix_type(e: Emitter, t: FragmentType) -> int:
    """The type of a cooperative matrix of the subgroup."""
    module = e.module
    words = (Scope.SUBGROUP, t.rows, t.columns, _USES[t.role])
    constants = [module.word(w) for w in words]
    return module.type(S.TYPE_COOPERATIVE_MATRIX, e.type(t.element), *constants)


class Matrices:
    """Lowers the ops on fragments."""

    def __init__(self, e: Emitter, memories: Memories) -> None:
        self.e, self.memories = e, memories

    def lower(self, op: Op) -> None:
        if op.name in _ARITHMETIC:
            t = self.e.type(op.results[0].type)
            result = self.e.rounded(_ARITHMETIC[op.name], t, *self.e.operands(op))
            self.e.define(op.results[0], result)
        else:
            METHODS[op.name](self, op)

    def splat(self, op: Op) -> None:
        t = self.e.type(op.results[0].type)
        self.e.define(op.results[0], self.e.ins(S.COMPOSITE_CONSTRUCT, t, *self.e.operands(op)))

    def convert(self, op: Op) -> None:
        t = self.e.type(op.results[0].type)
        self.e.define(op.results[0], self.e.ins(S.F_CONVERT, t, *self.e.operands(op)))

    def fma(self, op: Op) -> None:
        """Where a kernel lets sums and products be contracted, drivers may do so as well."""
        t = self.e.type(op.results[0].type)
        a, b, c = self.e.operands(op)
        product = self.e.ins(S.F_MUL, t, a, b)
        self.e.define(op.results[0], self.e.ins(S.F_ADD, t, product, c))

    def mma(self, op: Op) -> None:
        t = self.e.type(op.results[0].type)
        result = self.e.ins(S.COOPERATIVE_MATRIX_MUL_ADD, t, *self.e.operands(op))
        self.e.define(op.results[0], result)

    def place(self, op: Op) -> tuple[int, int, int]:
        """Pointer, layout and stride; index and stride are multiples of 16 bytes, so they may be
        counted in the vectors that the memory consists of."""
        e, lanes = self.e, self.memories.item_lanes(op.operands[0])
        index, stride = (self.memories.index(v) for v in op.operands[1:3])
        if lanes > 1:
            t = e.module.u32
            shift = e.module.word(lanes.bit_length() - 1)
            index, stride = (e.ins(S.SHIFT_RIGHT_LOGICAL, t, v, shift) for v in (index, stride))
        memory = self.memories.known[op.operands[0].id]
        pointer = self.memories.pointer(memory, index, lanes)
        return pointer, e.module.word(int(op.attr("layout") == "column")), stride

    def load(self, op: Op) -> None:
        pointer, layout, stride = self.place(op)
        words = (pointer, layout, stride, MemoryAccess.NON_PRIVATE)
        t = self.e.type(op.results[0].type)
        self.e.define(op.results[0], self.e.ins(S.COOPERATIVE_MATRIX_LOAD, t, *words))

    def store(self, op: Op) -> None:
        pointer, layout, stride = self.place(op)
        value = self.e.use(op.operands[3])
        words = (pointer, value, layout, stride, MemoryAccess.NON_PRIVATE)
        self.e.raw(S.COOPERATIVE_MATRIX_STORE, *words)


METHODS: dict[str, Callable[[Matrices, Op], None]] = {
    "splat": Matrices.splat,
    "convert": Matrices.convert,
    "fma": Matrices.fma,
    "fragment_mma": Matrices.mma,
    "fragment_load": Matrices.load,
    "fragment_store": Matrices.store,
}
