"""Subgroup operations.

WGSL's own serve 32-bit values; bools travel as words, 64-bit values as two of them. Reductions and
scans that it lacks, and minima of floats, whose treatment of NaN it leaves open, are trees of
shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DTYPES, Type, element_of, f16, lanes_of, u32, with_element
from .helpers import as_type, zero
from .ids import Ids
from .writer import Writer

_REDUCTIONS = {
    "add": "subgroupAdd", "mul": "subgroupMul", "min": "subgroupMin", "max": "subgroupMax",
    "and": "subgroupAnd", "or": "subgroupOr", "xor": "subgroupXor",
}  # fmt: skip
_SCANS = {
    ("add", True): "subgroupInclusiveAdd",
    ("add", False): "subgroupExclusiveAdd",
    ("mul", True): "subgroupInclusiveMul",
    ("mul", False): "subgroupExclusiveMul",
}
_SYMBOLS = {"add": "+", "mul": "*", "and": "&", "or": "|", "xor": "^"}


class Subgroups:
    """The subgroup operations of one kernel."""

    def __init__(self, w: Writer, ids: Ids) -> None:
        self.w, self.ids = w, ids

    @property
    def size(self) -> int:
        size = self.w.kernel.subgroup
        assert size is not None  # `Ids` refuses a kernel without one
        return size

    def need(self, feature: str) -> None:
        self.w.enables.add("subgroups")
        self.w.requires.add(feature)

    # moving values between lanes

    def shuffle(self, op: Op) -> None:
        """The four shuffles and broadcast, all as a read of a computed lane."""
        w, name, t = self.w, op.name, op.results[0].type
        value, n = (w.use(v) for v in op.operands)
        if element_of(op.operands[1].type) != u32:
            n = f"u32({n})"
        mask = f"{self.size - 1}u"
        if name in ("subgroup_shuffle", "subgroup_broadcast"):
            lane = f"({n} & {mask})"
        elif name == "subgroup_shuffle_xor":
            lane = f"(({self.ids.lane()} ^ {n}) & {mask})"
        else:
            other = w.let(f"{self.ids.lane()} {'-' if name == 'subgroup_shuffle_up' else '+'} {n}")
            # Outside on either side is >= size as an unsigned number; the own value stays there.
            lane = f"select({self.ids.lane()}, {other}, {other} < {self.size}u)"
        w.effect(op, self.move(value, t, lane))

    def move(self, value: str, t: Type, lane: str) -> str:
        """`value` as lane `lane` has it."""
        w, dtype = self.w, element_of(t)
        self.need("subgroup_shuffle")
        if dtype.is_bool:
            words = with_element(t, u32)
            word = f"select({zero(words)}, {w.splat(1, words)}, {value})"
            return f"(subgroupShuffle({word}, {lane}) != {zero(words)})"
        if dtype.bits < 64:
            w.type(t)
            return f"subgroupShuffle({value}, {lane})"
        value, lane = w.let(value), w.let(lane)
        parts = [f"{value}.{'xyzw'[n]}" for n in range(lanes_of(t))] if lanes_of(t) > 1 else [value]
        moved = [self._pair(part, dtype.name, lane) for part in parts]
        return moved[0] if len(moved) == 1 else f"{w.type(t)}({', '.join(moved)})"

    def _pair(self, value: str, name: str, lane: str) -> str:
        """A 64-bit scalar by its two words."""
        dtype = DTYPES[name]
        pair = self.w.let(self.w.split(value, dtype))
        return self.w.join(f"subgroupShuffle({pair}, {lane})", dtype)

    # reductions and scans

    def reduce(self, op: Op) -> None:
        """subgroup_reduce and subgroup_scan of any type."""
        w, kind, t = self.w, str(op.attr("kind")), op.results[0].type
        dtype = element_of(t)
        scan = op.name == "subgroup_scan"
        inclusive = bool(op.attr("inclusive")) if scan else False
        function = _SCANS.get((kind, inclusive)) if scan else _REDUCTIONS[kind]
        sums = kind in ("add", "mul")
        if function is None or dtype.bits == 64 or (dtype.is_float and not sums):
            w.effect(op, self.tree(op, kind, scan, inclusive))
            return
        self.need("subgroup_arithmetic")
        value = w.use(op.operands[0])
        if dtype == f16:
            value = f"{as_type(t, 'f32')}({value})"
        w.effect(op, f"{function}({value})")

    def tree(self, op: Op, kind: str, scan: bool, inclusive: bool) -> str:
        """By log2(size) steps of moving and combining."""
        w, t, step = self.w, op.results[0].type, 1
        value, own = w.let(w.use(op.operands[0])), self.ids.lane()
        while step < self.size:
            if not scan:
                other = w.let(self.move(value, t, f"(({own} ^ {step}u) & {self.size - 1}u)"))
                value = w.let(self.combine(kind, t, other, value))
            else:
                other = w.let(self.move(value, t, f"(({own} - {step}u) & {self.size - 1}u)"))
                both = self.combine(kind, t, other, value)
                value = w.let(f"select({value}, {both}, {self.flags(t, f'{own} >= {step}u')})")
            step *= 2
        if not scan or inclusive:
            return value
        other = w.let(self.move(value, t, f"(({own} - 1u) & {self.size - 1}u)"))
        return f"select({self.identity(kind, t)}, {other}, {self.flags(t, f'{own} >= 1u')})"

    @staticmethod
    def flags(t: Type, condition: str) -> str:
        return condition if lanes_of(t) == 1 else f"{as_type(t, 'bool')}({condition})"

    def combine(self, kind: str, t: Type, a: str, b: str) -> str:
        if kind in _SYMBOLS:
            return f"{a} {_SYMBOLS[kind]} {b}"
        if element_of(t).is_float:
            return f"{self.w.helper('least' if kind == 'min' else 'greatest', t)}({a}, {b})"
        return f"{kind}({a}, {b})"

    def identity(self, kind: str, t: Type) -> str:
        dtype = element_of(t)
        extremes: dict[str, float] = {"min": math.inf, "max": -math.inf, "mul": 1}
        if not dtype.is_float:
            ones = -1 if dtype.is_signed else dtype.max
            extremes |= {"min": dtype.max, "max": dtype.min, "and": ones}
        return self.w.splat(extremes.get(kind, 0), t)

    # votes

    def ballot(self, op: Op) -> None:
        self.need("subgroup_ballot")
        votes = f"subgroupBallot({self.w.use(op.operands[0])})"
        if element_of(op.results[0].type).bits == 32:
            self.w.effect(op, f"{votes}.x")
            return
        self.w.type(op.results[0].type)
        whole = self.w.let(votes)
        self.w.effect(op, f"(u64({whole}.y) << 32u) | u64({whole}.x)")

    def vote(self, op: Op) -> None:
        self.need("subgroup_vote")
        function = "subgroupAny" if op.name == "subgroup_any" else "subgroupAll"
        self.w.effect(op, f"{function}({self.w.use(op.operands[0])})")

    def elect(self, op: Op) -> None:
        self.w.effect(op, f"{self.ids.lane()} == 0u")


METHODS: dict[str, Callable[[Subgroups, Op], None]] = {
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
