"""Matrix fragments as cooperative matrices (SPV_KHR_cooperative_matrix), where a kernel asks for
them by the constexpr COOPERATIVE.

Which invocation holds an element is the driver's secret: what needs it goes through workgroup
memory (`ir.passes.fragments_hidden`), so that only whole matrices arrive here. A kernel with other
products than those of `PRODUCTS` is refused, and is built without COOPERATIVE as well.

The extension brings the Vulkan memory model: accesses to what invocations share are marked, and
barriers make them available and visible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...ir.core import Kernel, Op, Value, walk
from ...ir.dtypes import FragmentType, element_of
from ...ir.passes.fragments import has_fragments
from ...ir.passes.fragments_hidden import factors
from .opcodes import Cap, MemoryAccess, Scope
from .opcodes import Op as S

if TYPE_CHECKING:
    from .emitter import Emitter
    from .memory import Memories

# Element types of a and b that are multiplied, and the features that a device needs for them.
PRODUCTS = {
    ("f16", "f16"): ("cooperative_matrix", "f16"),
    ("bf16", "bf16"): ("cooperative_matrix_bf16",),
    ("i8", "i8"): ("cooperative_matrix_i8", "i8"),
    ("u8", "u8"): ("cooperative_matrix_i8", "i8"),
}
_USES = {"a": 0, "b": 1, "acc": 2}
_FLOATS = {"add": S.F_ADD, "sub": S.F_SUB, "mul": S.F_MUL, "div": S.F_DIV, "neg": S.F_NEGATE}
_INTEGERS = {"add": S.I_ADD, "sub": S.I_SUB, "mul": S.I_MUL, "neg": S.S_NEGATE}
_SIGNED = 0xF  # components of a, b, the sum and the result
_BFLOAT16 = 0  # encoding of a float type


def wanted(kernel: Kernel) -> bool:
    """Whether a kernel asks for cooperative matrices and multiplies fragments."""
    asked = bool(dict(kernel.constexprs).get("COOPERATIVE"))
    return asked and has_fragments(kernel) and bool(factors(kernel))


def of_bytes(kernel: Kernel) -> bool:
    """Whether any product is one of 8-bit integers."""
    return any(a in ("i8", "u8") for a, _ in factors(kernel))


def is_fragment(value: Value) -> bool:
    return isinstance(value.type, FragmentType)


def has_fragment(op: Op) -> bool:
    """Whether an op takes or gives a fragment."""
    return any(map(is_fragment, op.operands)) or any(map(is_fragment, op.results))


def refused(kernel: Kernel) -> tuple[Op, str] | None:
    """The first op that cooperative matrices cannot express, and why; None if there is none."""
    signs: set[str] = set()
    for op in walk(kernel.body):
        if op.name == "fragment_load" and len(op.operands) == 4:
            return op, "rows that are swizzled have no one stride"
        if op.name != "fragment_mma":
            continue
        a, b = (element_of(v.type).name for v in op.operands[:2])
        if (a, b) not in PRODUCTS:
            return op, f"no cooperative matrices for products of {a} and {b}"
        signs |= {a} & {"i8", "u8"}
        if len(signs) == 2:
            return op, "no cooperative matrices for products of i8 and those of u8 in one kernel"
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
    e.requires.add("memory_model")
    for pair in factors(e.kernel):
        e.requires.update(PRODUCTS[pair])
        e.signed_sums &= pair[0] != "u8"


def matrix_type(e: Emitter, t: FragmentType) -> int:
    """The type of a cooperative matrix of the subgroup."""
    module = e.module
    words = (Scope.SUBGROUP, t.rows, t.columns, _USES[t.role])
    constants = [module.word(w) for w in words]
    return module.type(S.TYPE_COOPERATIVE_MATRIX, _component(e, t), *constants)


def _component(e: Emitter, t: FragmentType) -> int:
    """The type of an element. Sums of products of u8 are unsigned, as their bits do not tell."""
    module, element = e.module, t.element
    if element.name == "bf16":
        module.capabilities |= {Cap.BFLOAT16_TYPE, Cap.BFLOAT16_COOPERATIVE_MATRIX}
        module.extensions.add("SPV_KHR_bfloat16")
        return module.type(S.TYPE_FLOAT, 16, _BFLOAT16)
    if element.is_int:
        return module.type(S.TYPE_INT, element.bits, int(element.is_signed and e.signed_sums))
    return e.type(element)


class Matrices:
    """Lowers the ops on fragments."""

    def __init__(self, e: Emitter, memories: Memories) -> None:
        self.e, self.memories = e, memories

    def lower(self, op: Op) -> None:
        if op.name in _FLOATS:
            t = self.e.type(op.results[0].type)
            if element_of(op.results[0].type).is_float:
                result = self.e.rounded(_FLOATS[op.name], t, *self.e.operands(op))
            else:
                result = self.e.ins(_INTEGERS[op.name], t, *self.e.operands(op))
            self.e.define(op.results[0], result)
        else:
            METHODS[op.name](self, op)

    def splat(self, op: Op) -> None:
        """Scalars are unsigned, and f32 for bf16."""
        e, t = self.e, op.results[0].type
        assert isinstance(t, FragmentType)
        (scalar,) = e.operands(op)
        part = _component(e, t)
        if t.element.name == "bf16":
            scalar = e.ins(S.F_CONVERT, part, scalar)
        elif part != e.type(t.element):
            scalar = e.ins(S.BITCAST, part, scalar)
        e.define(op.results[0], e.ins(S.COMPOSITE_CONSTRUCT, e.type(t), scalar))

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
        e, t = self.e, op.results[0].type
        signs = (_SIGNED,) if element_of(op.operands[0].type).name == "i8" else ()
        words = (*e.operands(op), *signs)
        e.define(op.results[0], e.ins(S.COOPERATIVE_MATRIX_MUL_ADD, e.type(t), *words))

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
