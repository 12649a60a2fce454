"""Loop-invariant code motion: what a loop computes anew from outside values moves before it.

Every pure op is total, so moving one out is always right; one that stands under a condition
moves only if it is cheap. A load moves only where it would run anyway: at the start of a loop that
runs at least once, from memory that nothing in the loop writes and no barrier in it orders.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, Region, Value, const_value, with_body
from ..dtypes import DType
from .control import CHEAP
from .effects import LOOPS, MERGEABLE, Aliasing, Summary, summarize


@dataclass(frozen=True)
class Licm:
    """Move loop-invariant ops out of loops."""

    name: str = "licm"

    def __call__(self, kernel: Kernel) -> Kernel:
        effects = summarize(kernel)
        if not effects[id(kernel.body)].loops:
            return kernel
        body = _Motion(kernel, effects).region(kernel.body, 0, True)
        return kernel if body is kernel.body else with_body(kernel, body)


class _Motion:
    def __init__(self, kernel: Kernel, effects: dict[int, Summary]) -> None:
        self.depth: dict[int, int] = {}  # loops around the definition of a value; 0 if absent
        self.known: dict[int, Op] = {}
        self.before: list[list[Op]] = [[]]  # what moves in front of the loop of each depth
        self.loops: list[Summary] = [Summary()]
        self.sure: list[bool] = [False]  # per loop: the region at hand runs at least once
        self.reached: list[bool] = [False]  # per loop: every turn of the one around reaches it
        self.effects = effects
        self.aliasing = Aliasing(kernel)

    def region(self, region: Region, level: int, always: bool) -> Region:
        """Rebuild a region inside `level` loops. always: it runs whenever its loop's turn does."""
        depth, get = self.depth, self.depth.get
        out: list[Op] = []
        changed = False
        for v in region.args:
            depth[v.id] = level
        for op in region.ops:
            if op.regions:
                effects = self.effects[id(op.regions)]
                if level or effects.loops or op.name in LOOPS:
                    new = self.nested(op, level, always)
                    changed |= len(new) > 1 or new[-1] is not op
                    out.extend(new)
                else:
                    out.append(op)
                if effects.jumps:
                    always = False
                self.define(op.results, level)
                continue
            name = op.name
            if name == "const":
                self.known[op.results[0].id] = op
            if not level:
                out.append(op)
                continue
            for v in op.operands:  # what needs a value of this turn stays: most ops do
                if get(v.id) == level:
                    break
            else:
                if (target := self.target(op, level, always)) < level:
                    self.before[target + 1].append(op)
                    self.define(op.results, target)
                    changed = True
                    continue
            for v in op.results:
                depth[v.id] = level
            out.append(op)
        return Region(region.args, tuple(out)) if changed else region

    def define(self, values: tuple[Value, ...], level: int) -> None:
        if level:
            for v in values:
                self.depth[v.id] = level

    def target(self, op: Op, level: int, always: bool) -> int:
        """The depth to which an op may move out; its own where it must stay."""
        name = op.name
        if name in MERGEABLE:
            if not always and name not in CHEAP:
                return level
            return max([self.depth.get(v.id, 0) for v in op.operands], default=0)
        if name != "load" or not always:
            return level
        least = max([self.depth.get(v.id, 0) for v in op.operands])
        memory = op.operands[0].id
        while level > least and self.movable(memory, level):
            level -= 1
            if not self.reached[level + 1]:
                break
        return level

    def movable(self, memory: int, level: int) -> bool:
        """Whether a load that always runs may move out of the loop at this depth."""
        if not self.sure[level]:
            return False
        if memory in self.aliasing.read_only:
            return True
        loop = self.loops[level]
        return not loop.sync and memory not in self.aliasing.written(loop.writes)

    def nested(self, op: Op, level: int, always: bool) -> list[Op]:
        """An op with regions, behind what moved out of it."""
        if op.name not in ("for", "while"):
            arms = tuple([self.region(r, level, False) for r in op.regions])
            return [_with_regions(op, arms)]
        self.before.append([])
        self.loops.append(self.effects[id(op.regions)])
        self.reached.append(always)
        self.sure.append(op.name == "while" or self.runs(op))
        regions = [self.region(op.regions[0], level + 1, True)]
        if op.name == "while":  # its condition is evaluated at least once, its body perhaps never
            self.sure[-1] = False
            regions.append(self.region(op.regions[1], level + 1, True))
        self.loops.pop()
        self.reached.pop()
        self.sure.pop()
        moved = self.before.pop()
        return [*moved, _with_regions(op, tuple(regions))]

    def runs(self, op: Op) -> bool:
        low, high = (self.known.get(v.id) for v in op.operands[:2])
        if low is None or high is None or not isinstance(op.operands[0].type, DType):
            return False
        return const_value(low) < const_value(high)


def _with_regions(op: Op, regions: tuple[Region, ...]) -> Op:
    if all(a is b for a, b in zip(regions, op.regions, strict=True)):
        return op
    return Op(op.name, op.operands, op.results, op.attrs, regions, op.loc)
