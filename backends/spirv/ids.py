"""Parameters and ids: the uniform block, built-in variables and folded grids.

A grid beyond a device's limit is dispatched as (min(total, 65535), rest, 1) groups. The kernel
compares the dispatched counts with the true grid of its parameter block; where they differ it
decodes the linear number of its group, and the surplus groups leave at once, as whole groups.
"""

from __future__ import annotations

import math

from ...ir import abi
from ...ir.dtypes import DType, element_of
from .emitter import Emitter
from .opcodes import BuiltIn, Cap, Deco, Glsl, Storage
from .opcodes import Op as S


class Ids:
    """The ids and parameter words of one kernel, each loaded once in the entry block."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        kernel, module = e.kernel, e.module
        self.layout = abi.word_layout(kernel.params, kernel.index)
        self.binding = len(abi.memory_params(kernel.params))
        self._words: dict[int, int] = {}
        self._builtins: dict[int, int] = {}
        self._parts: dict[tuple[int, int], int] = {}
        quad = e.ints(32, 4)
        pointer = module.block(quad, 16, self.layout.size // 4, Storage.UNIFORM)
        self.block = module.variable(pointer, Storage.UNIFORM)
        module.decorate(self.block, Deco.DESCRIPTOR_SET, 0)
        module.decorate(self.block, Deco.BINDING, self.binding)
        module.name(self.block, "params")
        self.size = self.local_size()
        self.group: dict[int, int] = {}
        self._index: dict[tuple[str, int], int] = {}

    def local_size(self) -> tuple[int, int, int]:
        """The LocalSize to declare.

        Full subgroups are promised only where the first dimension is a multiple of their size
        (lavapipe leaves lanes empty else), so other workgroups are laid out in a row.
        """
        e = self.e
        size, subgroup = e.kernel.workgroup, e.kernel.subgroup
        if not e.usage.subgroups:
            return size
        if subgroup is None:
            message = "subgroup ops need a subgroup size: give the kernel a SUBGROUP constexpr"
            raise e.fail(message)
        return size if size[0] % subgroup == 0 else (e.kernel.workgroup_count, 1, 1)

    # the parameter block

    def word(self, at: int) -> int:
        """A 32-bit word of the parameter block."""
        e, quad = self.e, at // 4
        if quad not in self._words:
            t = e.ints(32, 4)
            pointer = e.module.pointer(Storage.UNIFORM, t)
            zero = e.module.word(0)
            chain = e.early(S.ACCESS_CHAIN, pointer, self.block, zero, e.module.word(quad))
            self._words[quad] = e.early(S.LOAD, t, chain)
        key = (-1, at)
        if key not in self._parts:
            part = e.early(S.COMPOSITE_EXTRACT, e.module.u32, self._words[quad], at % 4)
            self._parts[key] = part
        return self._parts[key]

    def scalar(self, at: int, dtype: DType) -> int:
        """A by-value scalar whose first word is `at`, as a register of its type."""
        e = self.e
        low, t = self.word(at), e.type(dtype)
        if dtype.is_bool:
            return e.early(S.I_NOT_EQUAL, t, low, e.module.word(0))
        if dtype.bits == 64:
            pair = e.early(S.COMPOSITE_CONSTRUCT, e.ints(32, 2), low, self.word(at + 1))
            return e.early(S.BITCAST, t, pair)
        if dtype.name == "bf16":
            bits = e.early(S.SHIFT_LEFT_LOGICAL, e.module.u32, low, e.module.word(16))
            return e.early(S.BITCAST, t, bits)
        if dtype.name == "f16" and "f16" not in e.usage.arithmetic:  # by a conversion
            module = e.module
            pair = e.early(S.EXT_INST, e.floats(32, 2), module.glsl_set(), Glsl.UNPACK_HALF, low)
            half = e.early(S.COMPOSITE_EXTRACT, e.floats(32), pair, 0)
            return e.early(S.F_CONVERT, t, half)
        if dtype.name == "f16":  # as a pair, which needs no 16-bit integers
            pair = e.early(S.BITCAST, e.floats(16, 2), low)
            return e.early(S.COMPOSITE_EXTRACT, t, pair, 0)
        if dtype.is_float:
            return e.early(S.BITCAST, t, low)
        return low if dtype.bits == 32 else e.early(S.U_CONVERT, t, low)

    def count(self, buffer: int) -> int:
        """The element count of the n-th buffer, of the index type."""
        return self.scalar(self.layout.counts[buffer], self.e.kernel.index)

    # built-in variables

    def builtin(self, number: int, part: int | None = None) -> int:
        """A built-in, or one component of a three-component one; u32."""
        e, module = self.e, self.e.module
        if number not in self._builtins:
            t = module.u32 if part is None else e.ints(32, 3)
            variable = module.variable(module.pointer(Storage.INPUT, t), Storage.INPUT)
            module.decorate(variable, Deco.BUILT_IN, number)
            self._builtins[number] = e.early(S.LOAD, t, variable)
        if part is None:
            return self._builtins[number]
        key = (number, part)
        if key not in self._parts:
            whole = self._builtins[number]
            self._parts[key] = e.early(S.COMPOSITE_EXTRACT, module.u32, whole, part)
        return self._parts[key]

    def subgroup_builtin(self, number: int) -> int:
        self.e.module.capabilities.add(Cap.GROUP_NON_UNIFORM)
        self.e.requires.add("subgroup_basic")
        return self.builtin(number)

    # groups

    def unfold(self, dims: set[int]) -> None:
        """Emit the check for a folded grid; `dims` are the dimensions of group ids in use."""
        e, u32 = self.e, self.e.module.u32
        counts = [self.builtin(BuiltIn.NUM_WORKGROUPS, d) for d in (0, 1)]
        raw = {d: self.builtin(BuiltIn.WORKGROUP_ID, d) for d in sorted(dims | {0, 1})}
        grid = [self.word(self.layout.grid + d) for d in range(3)]
        differ = [e.ins(S.I_NOT_EQUAL, e.module.bool_, counts[d], grid[d]) for d in (0, 1)]
        folded = e.ins(S.LOGICAL_OR, e.module.bool_, *differ)
        decode, leave, inside, merge = (e.module.id() for _ in range(4))
        places = {d: e.variable(u32) for d in sorted(dims)}
        for d, place in places.items():
            e.raw(S.STORE, place, raw[d])
        e.raw(S.SELECTION_MERGE, merge, 0)
        e.raw(S.BRANCH_CONDITIONAL, folded, decode, merge)
        e.label(decode)
        linear = e.ins(S.I_ADD, u32, raw[0], e.ins(S.I_MUL, u32, raw[1], counts[0]))
        total = e.ins(S.I_MUL, u32, e.ins(S.I_MUL, u32, grid[0], grid[1]), grid[2])
        surplus = e.ins(S.U_GREATER_THAN_EQUAL, e.module.bool_, linear, total)
        e.raw(S.SELECTION_MERGE, inside, 0)
        e.raw(S.BRANCH_CONDITIONAL, surplus, leave, inside)
        e.label(leave)
        e.raw(S.RETURN)
        e.label(inside)
        for d, place in places.items():
            e.raw(S.STORE, place, self.decoded(linear, grid, d))
        e.branch(merge)
        e.label(merge)
        for d, place in places.items():
            self.group[d] = e.ins(S.LOAD, u32, place)

    def decoded(self, linear: int, grid: list[int], d: int) -> int:
        """The group id along `d` of the group with this linear number."""
        e, u32 = self.e, self.e.module.u32
        if d == 0:
            return e.ins(S.U_MOD, u32, linear, grid[0])
        rows = e.ins(S.U_DIV, u32, linear, grid[0])
        return e.ins(S.U_MOD if d == 1 else S.U_DIV, u32, rows, grid[1])

    # ids of the kernel's index type

    def as_index(self, word: int) -> int:
        """A u32 as the index type; in the code, where group ids are defined."""
        e = self.e
        return word if e.kernel.index.bits == 32 else e.ins(S.U_CONVERT, e.ints(64), word)

    def early_index(self, word: int) -> int:
        e = self.e
        return word if e.kernel.index.bits == 32 else e.early(S.U_CONVERT, e.ints(64), word)

    def prepare(self, used: set[tuple[str, int]]) -> None:
        """Define every id that the kernel uses, in the entry block or right behind it."""
        e = self.e
        dims = {d for name, d in used if name in ("group_id", "global_id")}
        self.unfold(dims)
        size = e.kernel.workgroup
        wide = e.kernel.index.bits
        for name, d in sorted(used):
            if name == "group_id":
                value = self.as_index(self.group[d])
            elif name == "global_id":
                value = self.as_index(self.group[d])
                if size[d] > 1:
                    scaled = e.ins(S.I_MUL, e.ints(wide), value, e.int_const(size[d], wide))
                    value = e.ins(S.I_ADD, e.ints(wide), scaled, self.local(d))
            elif name == "num_groups":
                value = self.early_index(self.word(self.layout.grid + d))
            elif name == "local_id":
                value = self.local(d)
            else:
                value = self.linear(name)
            self._index[name, d] = value

    def local(self, d: int) -> int:
        e = self.e
        if e.kernel.workgroup[d] == 1:
            return e.int_const(0, e.kernel.index.bits)
        key = ("local_id", d)
        if key not in self._index:
            self._index[key] = self.early_index(self.local_word(d))
        return self._index[key]

    def local_word(self, d: int) -> int:
        """local_id along `d` as u32."""
        e, size = self.e, self.e.kernel.workgroup
        if self.size == size:
            return self.builtin(BuiltIn.LOCAL_INVOCATION_ID, d)
        word, below = self.builtin(BuiltIn.LOCAL_INVOCATION_INDEX), math.prod(size[:d])
        if below > 1:
            word = e.early(S.U_DIV, e.module.u32, word, e.module.word(below))
        if math.prod(size[d + 1 :]) > 1:
            word = e.early(S.U_MOD, e.module.u32, word, e.module.word(size[d]))
        return word

    def linear(self, name: str) -> int:
        """local_linear_id and the subgroup ids."""
        e = self.e
        size = e.kernel.subgroup
        if name == "local_linear_id":
            return self.early_index(self.builtin(BuiltIn.LOCAL_INVOCATION_INDEX))
        if size is None:
            raise e.fail(f"{name} needs a subgroup size: give the kernel a SUBGROUP constexpr")
        if name == "num_subgroups":
            count = -(-e.kernel.workgroup_count // size)
            return e.int_const(count, e.kernel.index.bits)
        if e.usage.subgroups:
            # What the hardware says, so that ids and subgroup operations always agree.
            number = {
                "subgroup_id": BuiltIn.SUBGROUP_ID,
                "subgroup_lane": BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID,
            }[name]
            return self.early_index(self.subgroup_builtin(number))
        opcode = S.U_DIV if name == "subgroup_id" else S.U_MOD
        index = self.builtin(BuiltIn.LOCAL_INVOCATION_INDEX)
        return self.early_index(e.early(opcode, e.module.u32, index, e.module.word(size)))

    def get(self, name: str, d: int) -> int:
        return self._index[name, d]


def bind_scalars(e: Emitter, ids: Ids) -> None:
    """Load the by-value scalars and bind them to their arguments.

    A narrow scalar that legalization holds in 32 bits is the word as it comes.
    """
    at = iter(ids.layout.scalars)
    for param, value in zip(e.kernel.params, e.kernel.body.args, strict=True):
        if not param.is_memory:
            held = element_of(value.type)
            e.define(value, ids.scalar(next(at), held), param.name)
