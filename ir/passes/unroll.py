"""Full unrolling of `for` loops with a small constant number of turns.

A loop that is left early, by `break` or a `continue` anywhere but at the end of its body, stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, const_value, replaced, walk, with_body
from ..dtypes import DType, MemType, Space, Type
from .affine import SUMS, AffineForms
from .clone import clone_ops
from .effects import LOOPS, free_number

_WIDEST = 4  # lanes of the widest vector that `vectorize` makes


@dataclass(frozen=True)
class Unroll:
    """Unroll loops of at most `max_trips` turns whose copies hold at most `budget` ops.

    neighbours: only those whose turns access elements of a buffer side by side, which `vectorize`
    then joins; the target's compiler unrolls the others.
    """

    max_trips: int = 8
    budget: int = 128
    neighbours: bool = False
    name: str = "unroll"

    def __call__(self, kernel: Kernel) -> Kernel:
        if not _has_short(kernel, self.max_trips):
            return kernel
        walker = _Unroller(kernel, self)
        body, _ = walker.region(kernel.body)
        return kernel if body is kernel.body else with_body(kernel, body)


class _Unroller:
    def __init__(self, kernel: Kernel, options: Unroll) -> None:
        self.kernel = kernel
        self.options = options
        self.next = free_number(kernel)
        self.known: dict[int, int] = {}
        self.subst: dict[int, Value] = {}

    def fresh(self, type_: Type, hint: str = "") -> Value:
        self.next += 1
        return Value(self.next - 1, type_, hint)

    def region(self, region: Region) -> tuple[Region, int]:
        """The region with its loops unrolled, inner ones first, and its number of ops."""
        out: list[Op] = []
        size = 0
        changed = False
        for op in region.ops:
            new = self.renamed(op)
            if op.name == "const":
                self.known[op.results[0].id] = int(const_value(op)) if _is_int(op) else 0
            if op.regions:
                inner = [self.region(r) for r in op.regions]
                if any(a is not b for (a, _), b in zip(inner, op.regions, strict=True)):
                    regions = tuple([r for r, _ in inner])
                    new = Op(op.name, new.operands, op.results, op.attrs, regions, op.loc)
                within = sum(n for _, n in inner)
                trips = self.unroll(new, within, out) if op.name == "for" else None
                if trips is not None:
                    size += trips * within
                    changed = True
                    continue
                size += within
            changed |= new is not op
            size += 1
            out.append(new)
        return (Region(region.args, tuple(out)) if changed else region), size

    def renamed(self, op: Op) -> Op:
        subst = self.subst
        if not subst or not any(v.id in subst for v in op.operands):
            return op
        operands = replaced(op.operands, subst)
        return Op(op.name, operands, op.results, op.attrs, op.regions, op.loc)

    def unroll(self, op: Op, size: int, out: list[Op]) -> int | None:
        """Append the turns of a loop to `out` and say how many; None where it must stay."""
        low, high = (self.known.get(v.id) for v in op.operands[:2])
        body = op.regions[0]
        if low is None or high is None or body.terminator.name != "continue":
            return None
        trips, most = max(high - low, 0), self.options
        if trips > most.max_trips or (trips - 1) * size > most.budget or _leaves_early(body):
            return None
        if most.neighbours and trips > 1 and not self.neighbours(body):
            return None
        counter = op.operands[0].type
        assert isinstance(counter, DType)
        carried = op.operands[2:]
        for n in range(trips):
            at = self.fresh(counter, body.args[0].hint)
            bits = (low + n) & ((1 << counter.bits) - 1)
            out.append(Op("const", (), (at,), (("bits", bits),), (), op.loc))
            names = dict(zip([v.id for v in body.args], (at, *carried), strict=True))
            out.extend(clone_ops(body.ops[:-1], names, self.fresh))
            carried = replaced(body.terminator.operands, names)
        for old, new in zip(op.results, carried, strict=True):
            self.subst[old.id] = new
        return trips

    def neighbours(self, body: Region) -> bool:
        """Whether an access to a buffer moves on by less than the widest vector in a turn."""
        inside = list(walk(body))
        forms = AffineForms()
        for op in (*walk(self.kernel.body), *inside):
            if op.name in SUMS:
                forms.define(op)
        for op in inside:
            if op.name in ("load", "store"):
                memory, index = op.operands[0].type, op.operands[1]
                assert isinstance(memory, MemType)
                assert isinstance(index.type, DType)
                step = dict(forms.of(index).terms).get(body.args[0].id, 0)
                apart = min(step, (1 << index.type.bits) - step)
                if memory.space is Space.BUFFER and 0 < apart < _WIDEST:
                    return True
        return False


def _has_short(kernel: Kernel, trips: int) -> bool:
    """Whether any loop may have so few turns."""
    known: dict[int, Op] = {}
    regions = [kernel.body]
    for region in regions:
        for op in region.ops:
            if op.name == "const":
                known[op.results[0].id] = op
            elif op.regions:
                regions += op.regions
                if op.name == "for":
                    low, high = (known.get(v.id) for v in op.operands[:2])
                    if low is None or high is None:
                        continue
                    if const_value(high) - const_value(low) <= trips:
                        return True
    return False


def _is_int(op: Op) -> bool:
    t = op.results[0].type
    return isinstance(t, DType) and t.is_int


def _leaves_early(body: Region) -> bool:
    return any(_jumps(op) for op in body.ops[:-1])


def _jumps(op: Op) -> bool:
    if op.name in ("break", "continue"):
        return True
    if op.name in LOOPS:
        return False
    return any(_jumps(inner) for region in op.regions for inner in region.ops)
