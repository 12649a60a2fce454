"""Structured control flow: if, switch, for, while and their terminators.

Loop state and results are variables; what a region reads of them it reads once, at its start, so
that several may be assigned one after the other. A switch that a `break` or `continue` of a loop
leaves is written as a chain of `if`: WGSL's `break` would leave the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.core import Op, Region, Value, const_bits
from ...ir.dtypes import DType, element_of
from .writer import Writer


@dataclass(slots=True)
class Loop:
    """The variables that an iteration hands on; they hold the loop's results in the end."""

    carried: list[str]
    values: list[str]  # what they hold at the start of the iteration in hand
    last: Op  # of the loop's body: behind it the next iteration comes anyway


class Flow:
    """The constructs that are open at one point of an emission."""

    def __init__(self, w: Writer, lower: Callable[[Op], None]) -> None:
        self.w, self.lower = w, lower
        self.selections: list[list[str]] = []
        self.loops: list[Loop] = []

    def region(self, region: Region) -> None:
        """Write the ops of a region; its terminator leaves it."""
        w = self.w
        outer, w.region = w.region, region
        for op in region.ops:
            w.loc = op.loc or w.loc
            handler = _CONTROL.get(op.name)
            if handler is None:
                self.lower(op)
            else:
                handler(self, op)
                if op.name in ("if", "switch") and not any(_falls(r) for r in op.regions):
                    break  # nothing behind it is reached
        w.region = outer

    def variables(self, values: Sequence[Value]) -> list[str]:
        """A variable for each value."""
        w = self.w
        names = [w.name(value.hint) for value in values]
        for name, value in zip(names, values, strict=True):
            w.line(f"var {name}: {w.type(value.type)};")
        return names

    def initial(self, values: Sequence[Value], first: Sequence[Value]) -> list[str]:
        """A variable for each value, which holds another one at first."""
        w = self.w
        names = [w.name(value.hint) for value in values]
        for name, value, start in zip(names, values, first, strict=True):
            w.line(f"var {name}: {w.type(value.type)} = {w.use(start)};")
        return names

    def assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        for name, value in zip(names, values, strict=True):
            if (text := self.w.use(value)) != name:
                self.w.line(f"{name} = {text};")

    def read(self, names: Sequence[str], values: Sequence[Value]) -> list[str]:
        """What variables hold now, under names that stay."""
        return [self.w.named(n, v.hint) for n, v in zip(names, values, strict=True)]

    def bind(self, values: Sequence[Value], names: Sequence[str]) -> None:
        for value, name in zip(values, names, strict=True):
            self.w.bind(value, name)

    # selections

    def if_(self, op: Op) -> None:
        then, otherwise = op.regions
        condition = self.w.use(op.operands[0])
        results = self.variables(op.results)
        self.selections.append(results)
        empty = len(otherwise.ops) == 1 and otherwise.ops[0].name == "yield" and not results
        with self.w.block(f"if ({condition}) {{", "}" if empty else "} else {"):
            self.region(then)
        if not empty:
            self.w.lines.pop()
            with self.w.block("} else {"):
                self.region(otherwise)
        self.selections.pop()
        self.bind(op.results, results)

    def switch(self, op: Op) -> None:
        cases = op.attr("cases")
        assert isinstance(cases, tuple)
        chosen = self.w.let(self.w.use(op.operands[0]))
        results = self.variables(op.results)
        self.selections.append(results)
        wide = element_of(op.operands[0].type).bits == 64  # of which there is no switch
        if wide or any(_leaves(r) for r in op.regions):
            self._chain(op, cases, chosen)
        else:
            self._cases(op, cases, chosen)
        self.selections.pop()
        self.bind(op.results, results)

    def _labels(self, op: Op, cases: tuple[object, ...]) -> list[str]:
        dtype = op.operands[0].type
        assert isinstance(dtype, DType)
        found = []
        for case in cases:
            assert isinstance(case, int)
            found.append(self.w.literal(const_bits(case, dtype), dtype))
        return found

    def _cases(self, op: Op, cases: tuple[object, ...], chosen: str) -> None:
        with self.w.block(f"switch {chosen} {{"):
            labels = [f"case {label}" for label in self._labels(op, cases)]
            for label, region in zip([*labels, "default"], op.regions, strict=True):
                with self.w.block(f"{label}: {{"):
                    self.region(region)

    def _chain(self, op: Op, cases: tuple[object, ...], chosen: str) -> None:
        w = self.w
        head = "if"
        for label, region in zip(self._labels(op, cases), op.regions, strict=False):
            with w.block(f"{head} ({chosen} == {label}) {{"):
                self.region(region)
            w.lines.pop()
            head = "} else if"
        with w.block("} else {" if cases else "{"):
            self.region(op.regions[-1])

    # loops

    def for_(self, op: Op) -> None:
        w = self.w
        (body,) = op.regions
        high = w.let(w.use(op.operands[1]))
        counter, *carried = self.initial(body.args, [op.operands[0], *op.operands[2:]])
        dtype = body.args[0].type
        with w.block("loop {"):
            w.line(f"if !({counter} < {high}) {{ break; }}")
            w.bind(body.args[0], counter)  # changes between iterations only
            self._body(body, body.args[1:], carried)
            with w.block("continuing {"):
                w.line(f"{counter} += {w.splat(1, dtype)};")
        self.bind(op.results, carried)

    def while_(self, op: Op) -> None:
        w = self.w
        condition, body = op.regions
        carried = self.initial(condition.args, op.operands)
        with w.block("loop {"):
            values = self.read(carried, condition.args)
            self.bind(condition.args, values)
            self.bind(body.args, values)
            self.loops.append(Loop(carried, values, body.terminator))
            self.region(condition)
            self.region(body)
            self.loops.pop()
        self.bind(op.results, carried)

    def _body(self, body: Region, args: Sequence[Value], carried: list[str]) -> None:
        values = self.read(carried, args)
        self.bind(args, values)
        self.loops.append(Loop(carried, values, body.terminator))
        self.region(body)
        self.loops.pop()

    # terminators

    def condition(self, op: Op) -> None:
        self.w.line(f"if !({self.w.use(op.operands[0])}) {{ break; }}")

    def yield_(self, op: Op) -> None:
        self.assign(self.selections[-1], op.operands)

    def _hand_on(self, op: Op) -> None:
        loop = self.loops[-1]
        for name, kept, value in zip(loop.carried, loop.values, op.operands, strict=True):
            if (text := self.w.use(value)) != kept:
                self.w.line(f"{name} = {text};")

    def continue_(self, op: Op) -> None:
        self._hand_on(op)
        if op is not self.loops[-1].last:
            self.w.line("continue;")

    def break_(self, op: Op) -> None:
        self._hand_on(op)
        self.w.line("break;")

    def return_(self, op: Op) -> None:
        if op is not self.w.kernel.body.terminator:
            self.w.line("return;")


def _falls(region: Region) -> bool:
    """Whether control reaches the op behind the selection that the region belongs to."""
    return region.terminator.name == "yield"


def _leaves(region: Region) -> bool:
    """Whether a region holds a break or continue of a loop around it."""
    for op in region.ops:
        if op.name in ("break", "continue"):
            return True
        if op.name in ("if", "switch") and any(_leaves(r) for r in op.regions):
            return True
    return False


_CONTROL: dict[str, Callable[[Flow, Op], None]] = {
    "if": Flow.if_,
    "switch": Flow.switch,
    "for": Flow.for_,
    "while": Flow.while_,
    "condition": Flow.condition,
    "yield": Flow.yield_,
    "continue": Flow.continue_,
    "break": Flow.break_,
    "return": Flow.return_,
}
