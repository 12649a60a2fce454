"""Barriers, fences, atomics and fault sites.

The memory model is GLSL450: atomics are relaxed; a barrier orders workgroup memory, and buffers
where the kernel needs it (`Usage.ordered`). Float atomics are compare-exchange loops on the bits,
which any device runs, unless the target names the feature of the native instruction.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType
from .emitter import Emitter
from .memory import BITS, Array, Memories, Memory
from .native import FLOAT_ATOMICS
from .opcodes import Cap, Deco, Glsl, Scope, Semantics, Storage
from .opcodes import Op as S

_INT = {
    ("add", True): S.ATOMIC_I_ADD,
    ("add", False): S.ATOMIC_I_ADD,
    ("min", True): S.ATOMIC_S_MIN,
    ("min", False): S.ATOMIC_U_MIN,
    ("max", True): S.ATOMIC_S_MAX,
    ("max", False): S.ATOMIC_U_MAX,
    ("and", True): S.ATOMIC_AND,
    ("and", False): S.ATOMIC_AND,
    ("or", True): S.ATOMIC_OR,
    ("or", False): S.ATOMIC_OR,
    ("xor", True): S.ATOMIC_XOR,
    ("xor", False): S.ATOMIC_XOR,
    ("exchange", True): S.ATOMIC_EXCHANGE,
    ("exchange", False): S.ATOMIC_EXCHANGE,
}
_NATIVE_OPS = {
    "add": S.ATOMIC_F_ADD_EXT,
    "min": S.ATOMIC_F_MIN_EXT,
    "max": S.ATOMIC_F_MAX_EXT,
}
_ORDER = {
    "acquire": Semantics.ACQUIRE,
    "release": Semantics.RELEASE,
    "acq_rel": Semantics.ACQUIRE_RELEASE,
}


def barrier(e: Emitter, op: Op) -> None:
    semantics = Semantics.ACQUIRE_RELEASE | Semantics.WORKGROUP_MEMORY
    if id(op) in e.usage.ordered:
        semantics |= Semantics.UNIFORM_MEMORY
    if e.module.vulkan_memory:
        semantics |= Semantics.MAKE_AVAILABLE | Semantics.MAKE_VISIBLE
    scope = e.module.word(Scope.WORKGROUP)
    e.raw(S.CONTROL_BARRIER, scope, scope, e.module.word(semantics))


def subgroup_barrier(e: Emitter, op: Op) -> None:
    """A subgroup waits; its accesses to workgroup memory before are seen behind it."""
    semantics = Semantics.ACQUIRE_RELEASE | Semantics.WORKGROUP_MEMORY
    if e.module.vulkan_memory:
        semantics |= Semantics.MAKE_AVAILABLE | Semantics.MAKE_VISIBLE
    scopes = (e.module.word(s) for s in (Scope.SUBGROUP, Scope.WORKGROUP))
    e.raw(S.CONTROL_BARRIER, *scopes, e.module.word(semantics))


def fence(e: Emitter, op: Op) -> None:
    scope = Scope.DEVICE if op.attr("scope") == "device" else Scope.WORKGROUP
    semantics = _ORDER[str(op.attr("order"))] | Semantics.UNIFORM_MEMORY
    if e.usage.workgroup_arrays:
        semantics |= Semantics.WORKGROUP_MEMORY
    if e.module.vulkan_memory and op.attr("order") != "acquire":
        semantics |= Semantics.MAKE_AVAILABLE
    if e.module.vulkan_memory and op.attr("order") != "release":
        semantics |= Semantics.MAKE_VISIBLE
    e.raw(S.MEMORY_BARRIER, e.module.word(scope), e.module.word(semantics))


class Atomics:
    """Atomics on the memories of one kernel."""

    def __init__(self, e: Emitter, memories: Memories) -> None:
        self.e = e
        self.memories = memories
        self._faults: tuple[int, int] | None = None

    def target(self, op: Op, *, bits: bool) -> tuple[Memory, int, int, int]:
        """The memory, a pointer to the item, and the ids of scope and semantics."""
        e = self.e
        memory = self.memories.known[op.operands[0].id]
        index = self.memories.index(op.operands[1])
        shared = isinstance(memory, Array)
        pointer = self.memories.pointer(memory, index, BITS if bits else 1)
        scope = e.module.word(Scope.WORKGROUP if shared else Scope.DEVICE)
        return memory, pointer, scope, e.module.word(0)

    def need_wide(self, memory: Memory, dtype: DType) -> None:
        if dtype.bits == 64:
            self.e.module.capabilities.add(Cap.INT64_ATOMICS)
            shared = isinstance(memory, Array)
            self.e.requires |= {"i64", "atomic_shared_i64" if shared else "atomic_i64"}

    def atomic(self, op: Op) -> int:
        e, kind = self.e, str(op.attr("kind"))
        dtype, value = op.results[0].type, e.use(op.operands[2])
        assert isinstance(dtype, DType)
        if not dtype.is_float:
            memory, pointer, scope, relaxed = self.target(op, bits=False)
            self.need_wide(memory, dtype)
            opcode = _INT[kind, dtype.is_signed]
            return e.ins(opcode, e.type(dtype), pointer, scope, relaxed, value)
        if self.native(op, kind, dtype):
            memory, pointer, scope, relaxed = self.target(op, bits=False)
            return e.ins(_NATIVE_OPS[kind], e.type(dtype), pointer, scope, relaxed, value)
        memory, pointer, scope, relaxed = self.target(op, bits=True)
        self.need_wide(memory, dtype)
        word, real = e.ints(dtype.bits), e.type(dtype)
        if kind == "exchange":
            bits = e.ins(S.BITCAST, word, value)
            old = e.ins(S.ATOMIC_EXCHANGE, word, pointer, scope, relaxed, bits)
            return e.ins(S.BITCAST, real, old)

        def update(bits: int) -> int:
            new = self.combine(kind, dtype, e.ins(S.BITCAST, real, bits), value)
            return e.ins(S.BITCAST, word, new)

        return e.ins(S.BITCAST, real, self.cas_loop(pointer, scope, word, update))

    def native(self, op: Op, kind: str, dtype: DType) -> bool:
        """Whether to use the float instruction; declares what it needs."""
        e = self.e
        memory = self.memories.known[op.operands[0].id]
        row = FLOAT_ATOMICS.get((kind, dtype.bits, isinstance(memory, Array)))
        if row is None or row[0] not in e.native:
            return False
        if isinstance(memory, Array) and memory.bits:
            return False  # another atomic of this array works on its bits
        e.module.capabilities.add(row[1])
        e.module.extensions.add(row[2])
        e.requires.add(row[0])
        return True

    def combine(self, kind: str, dtype: DType, old: int, value: int) -> int:
        e, t = self.e, self.e.type(dtype)
        if kind == "add":
            return e.rounded(S.F_ADD, t, old, value)
        return e.glsl(t, Glsl.N_MIN if kind == "min" else Glsl.N_MAX, old, value)

    def cas_loop(self, pointer: int, scope: int, word: int, update: Callable[[int], int]) -> int:
        """Replace the word at `pointer` by `update` of it; gives the old word."""
        e, new_id = self.e, self.e.module.id
        relaxed = e.module.word(0)
        header, body, again, out = new_id(), new_id(), new_id(), new_id()
        e.branch(header)
        e.label(header)
        e.raw(S.LOOP_MERGE, out, again, 0)
        e.branch(body)
        e.label(body)
        expected = e.ins(S.ATOMIC_LOAD, word, pointer, scope, relaxed)
        operands = (pointer, scope, relaxed, relaxed, update(expected), expected)
        old = e.ins(S.ATOMIC_COMPARE_EXCHANGE, word, *operands)
        done = e.ins(S.I_EQUAL, e.module.bool_, old, expected)
        e.raw(S.BRANCH_CONDITIONAL, done, out, again)
        e.label(again)
        e.branch(header)
        e.label(out)
        return old

    def compare_exchange(self, op: Op) -> int:
        e, dtype = self.e, op.results[0].type
        assert isinstance(dtype, DType)
        memory, pointer, scope, relaxed = self.target(op, bits=dtype.is_float)
        self.need_wide(memory, dtype)
        word = e.ints(dtype.bits)
        expected, desired = (e.use(v) for v in op.operands[2:4])
        if dtype.is_float:
            expected, desired = (e.ins(S.BITCAST, word, v) for v in (expected, desired))
        operands = (pointer, scope, relaxed, relaxed, desired, expected)
        old = e.ins(S.ATOMIC_COMPARE_EXCHANGE, word, *operands)
        return e.ins(S.BITCAST, e.type(dtype), old) if dtype.is_float else old

    # faults

    def faults(self, binding: int) -> tuple[int, int]:
        """The fault bitmap, made at first use: variable and pointer to a word."""
        if self._faults is None:
            module = self.e.module
            pointer = module.block(module.u32, 4, None, Storage.STORAGE_BUFFER)
            variable = module.variable(pointer, Storage.STORAGE_BUFFER)
            module.decorate(variable, Deco.DESCRIPTOR_SET, 0)
            module.decorate(variable, Deco.BINDING, binding)
            module.name(variable, "faults")
            self._faults = variable, module.pointer(Storage.STORAGE_BUFFER, module.u32)
        return self._faults

    def check(self, op: Op, fault_base: int, binding: int) -> None:
        """Set the site's fault bit where the condition does not hold."""
        e, module = self.e, self.e.module
        site = op.attr("site")
        assert isinstance(site, int)
        variable, items = self.faults(binding)
        fail, out = module.id(), module.id()
        e.raw(S.SELECTION_MERGE, out, 0)
        e.raw(S.BRANCH_CONDITIONAL, e.use(op.operands[0]), out, fail)
        e.label(fail)
        u32 = module.u32
        place = e.ins(S.I_ADD, u32, fault_base, module.word(site))
        at = e.ins(S.SHIFT_RIGHT_LOGICAL, u32, place, module.word(5))
        shift = e.ins(S.BITWISE_AND, u32, place, module.word(31))
        bit = e.ins(S.SHIFT_LEFT_LOGICAL, u32, module.word(1), shift)
        pointer = e.ins(S.ACCESS_CHAIN, items, variable, module.word(0), at)
        scope, relaxed = module.word(Scope.DEVICE), module.word(0)
        e.ins(S.ATOMIC_OR, u32, pointer, scope, relaxed, bit)
        e.branch(out)
        e.label(out)
