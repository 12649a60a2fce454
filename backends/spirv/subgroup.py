"""Subgroup operations.

Only 32-bit integers and floats (and f64 sums) use the hardware's operations: other widths would
need a further device feature. 8- and 16-bit values travel widened; 64-bit ones move as two words
and are combined by a tree of shuffles. Float minimum and maximum compare order-preserving integer
keys, since the hardware's treatment of NaN is undefined and a NaN must lose.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType, Type, element_of, f16, lanes_of
from .arithmetic import least_of
from .conversions import round_bf16
from .emitter import Emitter
from .ids import Ids
from .integer import Ints
from .memory import bool_word
from .opcodes import BuiltIn, Cap, Scope
from .opcodes import Op as S

REDUCE, INCLUSIVE, EXCLUSIVE = 0, 1, 2

_GROUP_INT = {
    "add": S.GROUP_I_ADD,
    "mul": S.GROUP_I_MUL,
    "and": S.GROUP_AND,
    "or": S.GROUP_OR,
    "xor": S.GROUP_XOR,
}
_GROUP_FLOAT = {"add": S.GROUP_F_ADD, "mul": S.GROUP_F_MUL}
_LANE_INT = {
    "add": S.I_ADD,
    "mul": S.I_MUL,
    "and": S.BITWISE_AND,
    "or": S.BITWISE_OR,
    "xor": S.BITWISE_XOR,
}


class Subgroups:
    """The subgroup operations of one kernel."""

    def __init__(self, e: Emitter, ids: Ids) -> None:
        self.e, self.ids = e, ids

    @property
    def size(self) -> int:
        size = self.e.kernel.subgroup
        assert size is not None  # `Ids.local_size` refuses a kernel without one
        return size

    def need(self, capability: int, feature: str) -> int:
        """Declare a group of operations; gives the id of the scope operand."""
        self.e.module.capabilities |= {Cap.GROUP_NON_UNIFORM, capability}
        self.e.requires.add(feature)
        return self.e.module.word(Scope.SUBGROUP)

    def lane(self) -> int:
        return self.ids.subgroup_builtin(BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID)

    # moving values between lanes

    def shuffle(self, op: Op) -> int:
        """The four shuffles and broadcast: all as a read of a computed lane."""
        e, u32 = self.e, self.e.module.u32
        t = op.results[0].type
        constant = e.constants.get(op.operands[1].id)
        name = op.name
        if name == "subgroup_broadcast" and constant is not None:
            return self.move(e.use(op.operands[0]), t, e.module.word(constant % self.size), True)
        n = self.lane_operand(op)
        mask, own = e.module.word(self.size - 1), self.lane
        if name in ("subgroup_shuffle", "subgroup_broadcast"):
            lane = e.ins(S.BITWISE_AND, u32, n, mask)
        elif name == "subgroup_shuffle_xor":
            lane = e.ins(S.BITWISE_AND, u32, e.ins(S.BITWISE_XOR, u32, own(), n), mask)
        else:
            up = name == "subgroup_shuffle_up"
            other = e.ins(S.I_SUB if up else S.I_ADD, u32, own(), n)
            # Outside on either side is >= size as an unsigned number; the own value stays there.
            inside = e.ins(S.U_LESS_THAN, e.module.bool_, other, e.module.word(self.size))
            lane = e.ins(S.SELECT, u32, inside, other, own())
        return self.move(e.use(op.operands[0]), t, lane, False)

    def lane_operand(self, op: Op) -> int:
        e, dtype = self.e, op.operands[1].type
        assert isinstance(dtype, DType)
        n = e.use(op.operands[1])
        if dtype.bits == 32:
            return n
        return e.widen(n, dtype) if dtype.bits < 32 else e.ins(S.U_CONVERT, e.module.u32, n)

    def move(self, value: int, t: Type, lane: int, constant: bool) -> int:
        """`value` as lane `lane` has it, through 32-bit words."""
        e, dtype, lanes = self.e, element_of(t), lanes_of(t)
        if dtype.is_bool:
            word = self.read(bool_word(e, value, lanes), e.ints(32, lanes), lane, constant)
            return e.ins(S.I_NOT_EQUAL, e.bools(lanes), word, e.int_const(0, 32, lanes))
        if dtype.is_int and dtype.bits < 32:
            word = e.ins(S.U_CONVERT, e.ints(32, lanes), value)
            word = self.read(word, e.ints(32, lanes), lane, constant)
            return e.ins(S.U_CONVERT, e.type(t), word)
        if dtype == f16:
            wide = e.ins(S.F_CONVERT, e.floats(32, lanes), value)
            wide = self.read(wide, e.floats(32, lanes), lane, constant)
            return e.ins(S.F_CONVERT, e.type(t), wide)
        if dtype.bits == 64:
            scalar, pair = e.type(dtype), e.ints(32, 2)
            parts = [
                e.ins(S.BITCAST, scalar, self.read(e.ins(S.BITCAST, pair, v), pair, lane, constant))
                for v in e.per_lane(value, scalar, lanes)
            ]
            return e.gather(parts, scalar)
        return self.read(value, e.type(t), lane, constant)

    def read(self, value: int, type_: int, lane: int, constant: bool) -> int:
        if constant:
            scope = self.need(Cap.GROUP_NON_UNIFORM_BALLOT, "subgroup_ballot")
            return self.e.ins(S.GROUP_BROADCAST, type_, scope, value, lane)
        scope = self.need(Cap.GROUP_NON_UNIFORM_SHUFFLE, "subgroup_shuffle")
        return self.e.ins(S.GROUP_SHUFFLE, type_, scope, value, lane)

    # reductions and scans

    def reduce(self, op: Op) -> int:
        """subgroup_reduce and subgroup_scan of any type."""
        e, kind, t = self.e, str(op.attr("kind")), op.results[0].type
        dtype, lanes, value = element_of(t), lanes_of(t), e.use(op.operands[0])
        if op.name == "subgroup_reduce":
            mode = REDUCE
        else:
            mode = INCLUSIVE if op.attr("inclusive") else EXCLUSIVE
        if dtype.is_int and dtype.bits < 32:
            wide = e.widen(value, dtype, lanes)
            total = self.group_int(mode, kind, wide, dtype.is_signed, lanes)
            if mode == EXCLUSIVE and kind in ("min", "max"):
                identity = self.identity(kind, dtype, lanes, 32)
                total = self.first_lane(total, e.ints(32, lanes), lanes, identity)
            return e.ins(S.U_CONVERT, e.type(t), total)
        if dtype.is_int and dtype.bits == 32:
            return self.group_int(mode, kind, value, dtype.is_signed, lanes)
        if dtype.bits == 64 and not (dtype.is_float and kind in _GROUP_FLOAT):
            return self.tree(mode, kind, value, t)
        if dtype == f16:
            value = e.ins(S.F_CONVERT, e.floats(32, lanes), value)
        bits = 64 if dtype.bits == 64 else 32
        if kind in _GROUP_FLOAT:
            scope = self.need(Cap.GROUP_NON_UNIFORM_ARITHMETIC, "subgroup_arithmetic")
            result = e.ins(_GROUP_FLOAT[kind], e.floats(bits, lanes), scope, mode, value)
        else:
            result = self.group_order(mode, kind, value, lanes)
        if dtype == f16:
            return e.ins(S.F_CONVERT, e.type(t), result)
        return round_bf16(e, result, lanes) if dtype.name == "bf16" else result

    def group_int(self, mode: int, kind: str, value: int, signed: bool, lanes: int) -> int:
        opcode = _GROUP_INT.get(kind)
        if opcode is None:
            least = S.GROUP_S_MIN if signed else S.GROUP_U_MIN
            most = S.GROUP_S_MAX if signed else S.GROUP_U_MAX
            opcode = least if kind == "min" else most
        scope = self.need(Cap.GROUP_NON_UNIFORM_ARITHMETIC, "subgroup_arithmetic")
        return self.e.ins(opcode, self.e.ints(32, lanes), scope, mode, value)

    def group_order(self, mode: int, kind: str, value: int, lanes: int) -> int:
        """min or max of f32 by keys that order as the floats do, with NaN as the loser."""
        e = self.e
        n, real = Ints(e, 32, lanes), e.floats(32, lanes)
        top, ones, zero = n.const(0x80000000), n.const(0xFFFFFFFF), n.const(0)
        word = n.do(S.BITCAST, value)
        negative = n.test(S.S_LESS_THAN, word, zero)
        key = n.do(S.BITWISE_XOR, word, n.select(negative, ones, top))
        magnitude = n.do(S.BITWISE_AND, word, n.const(0x7FFFFFFF))
        nan = n.test(S.U_GREATER_THAN, magnitude, n.const(0x7F800000))
        key = n.select(nan, ones if kind == "min" else zero, key)
        best = self.group_int(mode, kind, key, False, lanes)
        positive = n.test(S.S_LESS_THAN, best, zero)
        word = n.do(S.BITWISE_XOR, best, n.select(positive, top, ones))
        result = e.ins(S.BITCAST, real, word)
        if mode != EXCLUSIVE:
            return result
        limit = math.inf if kind == "min" else -math.inf
        return self.first_lane(result, real, lanes, e.float_const(limit, 32, lanes))

    def first_lane(self, value: int, type_: int, lanes: int, identity: int) -> int:
        """`value`, but `identity` in lane 0."""
        e = self.e
        first = e.ins(S.I_EQUAL, e.module.bool_, self.lane(), e.module.word(0))
        first = e.splat(first, e.module.bool_, lanes)
        return e.ins(S.SELECT, type_, first, identity, value)

    def identity(self, kind: str, dtype: DType, lanes: int, bits: int) -> int:
        e = self.e
        if dtype.is_float:
            value = {"add": 0.0, "mul": 1.0, "min": math.inf, "max": -math.inf}[kind]
            return e.float_const(value, bits, lanes)
        extremes = {"min": dtype.max, "max": dtype.min}
        whole = {"add": 0, "mul": 1, "and": -1, "or": 0, "xor": 0, **extremes}[kind]
        return e.int_const(whole, bits, lanes)

    def tree(self, mode: int, kind: str, value: int, t: Type) -> int:
        """By log2(size) steps of moving and combining; any type."""
        e, u32 = self.e, self.e.module.u32
        dtype, lanes, own = element_of(t), lanes_of(t), self.lane()
        step = 1
        while step < self.size:
            distance = e.module.word(step)
            if mode == REDUCE:
                other = self.move(value, t, e.ins(S.BITWISE_XOR, u32, own, distance), False)
                value = self.combine(kind, t, other, value)
            else:
                other, there = self.below(value, t, own, distance)
                combined = self.combine(kind, t, other, value)
                value = e.ins(S.SELECT, e.type(t), there, combined, value)
            step *= 2
        if mode != EXCLUSIVE:
            return value
        other, there = self.below(value, t, own, e.module.word(1))
        identity = self.identity(kind, dtype, lanes, dtype.bits)
        return e.ins(S.SELECT, e.type(t), there, other, identity)

    def below(self, value: int, t: Type, own: int, distance: int) -> tuple[int, int]:
        """The value of the lane `distance` below, and whether there is one."""
        e, u32 = self.e, self.e.module.u32
        down, mask = e.ins(S.I_SUB, u32, own, distance), e.module.word(self.size - 1)
        moved = self.move(value, t, e.ins(S.BITWISE_AND, u32, down, mask), False)
        there = e.ins(S.U_GREATER_THAN_EQUAL, e.module.bool_, own, distance)
        return moved, e.splat(there, e.module.bool_, lanes_of(t))

    def combine(self, kind: str, t: Type, a: int, b: int) -> int:
        if kind in _LANE_INT:
            return self.e.ins(_LANE_INT[kind], self.e.type(t), a, b)
        return least_of(self.e, t, kind == "min", a, b)

    # votes

    def ballot(self, op: Op) -> int:
        e = self.e
        scope = self.need(Cap.GROUP_NON_UNIFORM_BALLOT, "subgroup_ballot")
        votes = e.ins(S.GROUP_BALLOT, e.ints(32, 4), scope, e.use(op.operands[0]))
        t = op.results[0].type
        assert isinstance(t, DType)
        if t.bits == 32:
            return e.ins(S.COMPOSITE_EXTRACT, e.module.u32, votes, 0)
        pair = e.ins(S.VECTOR_SHUFFLE, e.ints(32, 2), votes, votes, 0, 1)
        return e.ins(S.BITCAST, e.ints(64), pair)

    def vote(self, op: Op) -> int:
        scope = self.need(Cap.GROUP_NON_UNIFORM_VOTE, "subgroup_vote")
        opcode = S.GROUP_ANY if op.name == "subgroup_any" else S.GROUP_ALL
        return self.e.ins(opcode, self.e.module.bool_, scope, self.e.use(op.operands[0]))

    def elect(self, op: Op) -> int:
        return self.e.ins(S.I_EQUAL, self.e.module.bool_, self.lane(), self.e.module.word(0))


Method = Callable[[Subgroups, Op], int]

METHODS: dict[str, Method] = {
    "subgroup_reduce": Subgroups.reduce,
    "subgroup_scan": Subgroups.reduce,
    "subgroup_shuffle": Subgroups.shuffle,
    "subgroup_shuffle_xor": Subgroups.shuffle,
    "subgroup_shuffle_up": Subgroups.shuffle,
    "subgroup_shuffle_down": Subgroups.shuffle,
    "subgroup_broadcast": Subgroups.shuffle,
    "subgroup_ballot": Subgroups.ballot,
    "subgroup_any": Subgroups.vote,
    "subgroup_all": Subgroups.vote,
    "subgroup_elect": Subgroups.elect,
}
