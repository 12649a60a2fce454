"""Which values and which control flow are the same for a workgroup or a subgroup.

`check_control(kernel)` is the rule of the language (DESIGN: Uniformity). It follows WGSL's
analysis and accepts nothing that WGSL forbids: a value computed under divergent control counts as
varying, a loop that some invocations leave early is divergent from its head, a load is uniform
only from a read-only buffer at a uniform index.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from .core import Kernel, Op, Region, Value, ops_by_name, walk
from .dtypes import FragmentType, MemType, Space
from .ops import ROWS, Effect


class Level(enum.IntEnum):
    """How far a value is the same."""

    GRID = 0  # for the whole launch
    UNIFORM = 1  # for the whole workgroup
    ROLE = 2  # for every four subgroups, which NVIDIA calls a warpgroup
    SUBGROUP = 3  # within each subgroup
    VARYING = 4


@dataclass(frozen=True, slots=True)
class Violation:
    """An op that runs under divergent control. `cause` is the op that diverges."""

    op: Op
    cause: Op | None
    message: str


@dataclass(frozen=True, slots=True)
class Control:
    """How far control is uniform, and the op that made it less so."""

    level: Level = Level.GRID
    cause: Op | None = None

    def join(self, other: Control) -> Control:
        return other if other.level > self.level else self

    def under(self, level: Level, op: Op) -> Control:
        return self.join(Control(level, op))


def check_control(kernel: Kernel, fragments: bool) -> list[Violation]:
    """Barriers and subgroup ops that stand under control that is not uniform enough.

    fragments: whether any op gives one.
    """
    analysis = _Analysis(kernel, fragments)
    if not analysis.watched:
        return []
    analysis.region(kernel.body, Control())
    return analysis.violations()


_EVERYWHERE = ("num_groups", "num_subgroups", "count", "const", "alloc")
_SUBGROUP_RESULTS = (
    "subgroup_reduce",
    "subgroup_broadcast",
    "subgroup_ballot",
    "subgroup_any",
    "subgroup_all",
)
_OWN_IDS = ("global_id", "local_id", "local_linear_id", "subgroup_lane")
_LOOPS = ("for", "while")
_WARPGROUPS = tuple(
    (("count", 4 * n), ("first", 4 * first)) for n in range(1, 9) for first in range(8)
)
# How far control must be the same where an op stands, and how a refusal says it.
_NEEDS = {
    **{n: Level.SUBGROUP for n, row in ROWS.items() if row.effect is Effect.CONVERGENT},
    "barrier": Level.UNIFORM,
    "subgroup_barrier": Level.SUBGROUP,
    "grid_barrier": Level.GRID,
    "nv_cluster_barrier": Level.UNIFORM,
    "nv_named_barrier": Level.SUBGROUP,
    "nv_named_arrive": Level.SUBGROUP,
    **{n: Level.ROLE for n in ROWS if n.startswith(("nv_wgmma", "nv_set_max"))},
}
_WHO = {
    Level.GRID: "workgroups of a launch",
    Level.UNIFORM: "invocations of a workgroup",
    Level.ROLE: "invocations of a warpgroup",
    Level.SUBGROUP: "invocations of a subgroup",
}


def _known(name: str) -> Level | None:
    """The level of an op's result where its name tells it."""
    effect = ROWS[name].effect
    if name in _EVERYWHERE:
        return Level.GRID
    if name in ("group_id", "nv_cluster_rank"):
        return Level.UNIFORM
    if name == "nv_warpgroup":
        return Level.ROLE
    if name in _OWN_IDS or effect in (Effect.ATOMIC, Effect.SYNC):
        return Level.VARYING
    if name == "subgroup_id" or name in _SUBGROUP_RESULTS:
        return Level.SUBGROUP
    if effect is Effect.CONVERGENT and not name.startswith("fragment_"):
        return Level.VARYING
    return None


_BY_MORE = ("load", "nv_role")  # by more than the levels of the operands
_KNOWN = {name: level for name in ROWS if (level := _known(name)) is not None}


def _called(op: Op) -> str:
    """An op as the kernel language calls it."""
    if op.name not in ("subgroup_reduce", "subgroup_scan"):
        return op.name
    kind = str(op.attr("kind"))
    kind += "_" if kind in ("and", "or") else ""
    if op.name == "subgroup_reduce":
        return f"subgroup_{kind}"
    return f"subgroup_{'inclusive' if op.attr('inclusive') else 'exclusive'}_{kind}"


@dataclass
class _Loop:
    """What is gathered about a loop while its body is walked."""

    args: list[Level]
    results: list[Level]
    back: Control  # control that comes round to the head
    exit: Level  # how divergent leaving it is


class _Analysis:
    def __init__(self, kernel: Kernel, fragments: bool) -> None:
        self.values: dict[int, Level] = {v.id: Level.GRID for v in kernel.body.args}
        self.control: dict[int, tuple[Op, Control]] = {}
        self.returns = Control()  # of the returns seen so far
        self.loops: list[_Loop] = []
        self.escaping: dict[int, bool] = {}
        self.known_loops: dict[int, _Loop] = {}
        # Ops whose control matters are noted; in a kernel with fragments that is every op.
        self.fragments = fragments
        self.watched = fragments or not _NEEDS.keys().isdisjoint(ops_by_name(kernel.body))

    # values

    def level(self, values: Iterable[Value]) -> Level:
        found = Level.GRID
        for value in values:
            level = self.values.get(value.id, Level.GRID)
            if level > found:
                found = level
        return found

    def define(self, values: Iterable[Value], level: Level, control: Control) -> None:
        if control.level > level:
            level = control.level
        for value in values:
            if self.values.get(value.id, -1) < level:
                self.values[value.id] = level

    def of_op(self, op: Op) -> Level:
        """The level of an op's result from its operands alone."""
        if (known := _KNOWN.get(op.name)) is not None:
            return known
        if op.name == "load":
            return self._load_level(op)
        if op.name == "nv_role":
            return Level.ROLE if op.attrs in _WARPGROUPS else Level.SUBGROUP
        for value in op.results:
            if isinstance(value.type, FragmentType):
                return Level.SUBGROUP
        return self.level(op.operands)

    def _load_level(self, op: Op) -> Level:
        memory = op.operands[0].type
        assert isinstance(memory, MemType)
        if memory.space is Space.BUFFER and not memory.access.writes:
            return self.level(op.operands[1:])
        return Level.VARYING

    # control

    def region(self, region: Region, control: Control) -> Control:
        """Walk a region; the control at its end."""
        levels, fragments = self.values, self.fragments
        for op in region.ops:
            name = op.name
            if fragments or name in _NEEDS:
                self.control[id(op)] = (op, control)
            if op.regions:
                walk_in = self.loop if name in _LOOPS else self.choice
                control = walk_in(op, control)
            elif results := op.results:
                level = control.level
                known = _KNOWN.get(name)
                if known is None and (fragments or name in _BY_MORE):
                    known = self.of_op(op)
                if known is None:
                    for value in op.operands:
                        if levels.get(value.id, level) > level:
                            level = levels[value.id]
                elif known > level:
                    level = known
                for value in results:
                    if levels.get(value.id, -1) < level:
                        levels[value.id] = level
            elif name in ("break", "continue"):
                self.leave(op, control)
            elif name == "return":
                self.returns = self.returns.join(control)
        return control

    def choice(self, op: Op, control: Control) -> Control:
        chosen = self.level(op.operands[:1])
        inner = control.under(chosen, op)
        after = control
        for region in op.regions:
            end = self.region(region, inner)
            terminator = region.ops[-1]
            if terminator.name == "yield":
                for result, value in zip(op.results, terminator.operands, strict=True):
                    self.define([result], max(chosen, self.level([value])), control)
                if self.escapes(op):
                    after = after.join(end)
        return after

    def escapes(self, op: Op) -> bool:
        """Whether some path through an op leaves by break, continue or return."""
        known = self.escaping.get(id(op))
        if known is None:
            known = any(_leaves(region) for region in op.regions)
            self.escaping[id(op)] = known
        return known

    def leave(self, op: Op, control: Control) -> None:
        loop = self.loops[-1]
        into = loop.args if op.name == "continue" else loop.results
        if op.name == "continue":
            loop.back = loop.back.join(control)
        else:
            loop.exit = max(loop.exit, control.level)
        for n, value in enumerate(op.operands):
            into[n] = max(into[n], self.level([value]))

    def loop(self, op: Op, control: Control) -> Control:
        is_for = op.name == "for"
        bounds = self.level(op.operands[:2]) if is_for else Level.GRID
        inits = op.operands[2:] if is_for else op.operands
        args, results = [self.level([v]) for v in inits], [Level.GRID] * len(inits)
        state = _Loop(args, results, control, bounds)
        if (known := self.known_loops.get(id(op))) is not None:
            # In a loop around this one, whose last turn found no more than this one finds.
            state.args = list(map(max, args, known.args))
            state.results, state.exit = list(known.results), max(bounds, known.exit)
        self.known_loops[id(op)] = state
        returns, self.returns = self.returns, Control()
        body = op.regions[-1]
        while True:
            before = (list(state.args), state.back.level, state.exit)
            head = state.back
            self.loops.append(state)
            if is_for:
                self.define(body.args[:1], bounds, head)
                inner = head.under(bounds, op)
                carried = body.args[1:]
            else:
                cond = op.regions[0]
                for arg, level in zip(cond.args, state.args, strict=True):
                    self.define([arg], level, head)
                end = self.region(cond, head)
                tested = self.level(cond.ops[-1].operands)
                state.exit = max(state.exit, tested)
                inner = end.under(tested, op)
                carried = body.args
            for arg, level in zip(carried, state.args, strict=True):
                self.define([arg], level, inner)
            self.region(body, inner)
            self.loops.pop()
            # Leaving early at different times makes the next round divergent.
            state.back = state.back.join(inner).under(state.exit, op)
            if before == (state.args, state.back.level, state.exit):
                break
        inside, self.returns = self.returns, returns.join(self.returns)
        for n, result in enumerate(op.results):
            level = max(state.args[n], state.results[n], state.exit, inside.level)
            self.define([result], level, control)
        if any(o.name == "return" for o in walk(body)):
            return control.join(state.back).join(inside)
        return control

    # requirements

    def violations(self) -> list[Violation]:
        found = []
        for op, control in self.control.values():
            together = _fragments(op)
            wanted = Level.SUBGROUP if together else _NEEDS.get(op.name, Level.VARYING)
            if control.level > wanted:
                where = f"between {_WHO[wanted]}"
                message = f"{_called(op)} under a condition that differs {where}"
                found.append(Violation(op, control.cause, message))
            elif together and not op.regions and self._scalars(op) > Level.SUBGROUP:
                message = f"{op.name} of a fragment and a value that differs within a subgroup"
                found.append(Violation(op, None, message))
            elif op.name == "subgroup_broadcast" and self.level(op.operands[1:]) > Level.SUBGROUP:
                message = "subgroup_broadcast from a lane that differs between invocations"
                found.append(Violation(op, None, message))
        return found

    def _scalars(self, op: Op) -> Level:
        """The level of the operands that are neither fragments nor memory."""
        apart = FragmentType, MemType
        if op.name in ("yield", "continue", "break"):  # each operand goes its own way
            return Level.GRID
        return self.level(v for v in op.operands if not isinstance(v.type, apart))


def _fragments(op: Op) -> bool:
    """Whether an op takes or gives fragments, which a subgroup holds together."""
    return FragmentType in [type(v.type) for v in (*op.operands, *op.results)]


def _leaves(region: Region) -> bool:
    if region.ops[-1].name in ("break", "continue", "return"):
        return True
    for op in region.ops:
        if op.name in _LOOPS:
            if any(o.name == "return" for r in op.regions for o in walk(r)):
                return True
        elif op.regions and any(map(_leaves, op.regions)):
            return True
    return False
