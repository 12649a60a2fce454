"""`match` on integers: a switch op where every case is a constant, else a chain of ifs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..core import Value
from ..dtypes import DType
from . import literals
from .join import branch, finish, trace_arm
from .operators import binary
from .values import Entry, describe, is_number

if TYPE_CHECKING:
    from .tracer import Tracer


def match(t: Tracer, node: ast.Match) -> None:
    subject = t.expression(node.subject)
    if not isinstance(subject, Value):
        _static(t, node, subject)
        return
    if not (isinstance(subject.type, DType) and subject.type.is_int):
        t.fail(node.subject, f"match takes an integer, found {describe(subject)}")
    cases = [_plain(t, case) for case in node.cases]
    last = len(cases) - 1
    if all(isinstance(c, int) or (c is None and n == last) for n, c in enumerate(cases)):
        _switch(t, node, subject, [c for c in cases if isinstance(c, int)])
    else:
        _chain(t, node, subject, 0)


def _plain(t: Tracer, case: ast.match_case) -> int | str | None:
    """The constant of a case; None for the wildcard; "" for anything else."""
    pattern = case.pattern
    if case.guard is not None:
        return ""
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        return None
    if isinstance(pattern, ast.MatchValue):
        return _integer(t, pattern)
    return ""


def _integer(t: Tracer, pattern: ast.MatchValue) -> int:
    entry = t.static(pattern.value, "the pattern of a case")
    return t.static_int(pattern, entry, "the pattern of a case")


def _switch(t: Tracer, node: ast.Match, subject: Value, cases: list[int]) -> None:
    dtype = subject.type
    assert isinstance(dtype, DType)
    for case, number in zip(node.cases, cases, strict=False):
        literals.check_literal(t, case.pattern, number, dtype, " for the pattern of a case")
        if cases.count(number) > 1:
            t.fail(case.pattern, f"two cases match {number}")
    live = t.live_after(node)
    mark = t.builder.next_id
    bodies = [c.body for c in node.cases]
    if len(cases) == len(bodies):
        bodies.append([])
    arms = []
    for n, body in enumerate(bodies):
        label = f"the case is {cases[n]}" if n < len(cases) else "no case matches"
        arms.append(trace_arm(t, node, label, partial(t.block, body)))
    finish(t, node, "switch", subject, arms, {"cases": tuple(cases)}, mark, live)


def _chain(t: Tracer, node: ast.Match, subject: Entry, n: int) -> None:
    """Case n and those behind it, as if and else."""
    if n == len(node.cases):
        return
    case = node.cases[n]
    cond = _matches(t, case.pattern, subject)

    def body() -> None:
        if case.guard is None:
            t.block(case.body)
            return
        guard = literals.condition(t, case.guard, t.expression(case.guard))
        _either(guard, lambda: t.block(case.body))

    def _either(cond: Value | bool, then: Callable[[], None]) -> None:
        if isinstance(cond, bool):
            if cond:
                then()
            else:
                _chain(t, node, subject, n + 1)
        else:
            live = t.live_after(node)
            branch(t, case.pattern, cond, then, lambda: _chain(t, node, subject, n + 1), live)

    if case.guard is not None and isinstance(cond, Value):
        # The guard may read what the pattern binds, and runs only where the pattern matches.
        guard = t.expression(case.guard)
        guarded = literals.condition(t, case.guard, guard)
        both = cond if guarded is True else (
            False if guarded is False else t.emit(case.guard, "and", cond, guarded)
        )  # fmt: skip
        _either(both, lambda: t.block(case.body))
    elif case.guard is not None and cond:
        body()
    else:
        _either(cond, lambda: t.block(case.body))


def _matches(t: Tracer, pattern: ast.pattern, subject: Entry) -> Value | bool:
    """Whether the subject fits a pattern; names that it binds are bound."""
    if isinstance(pattern, ast.MatchValue):
        entry = binary(t, pattern, "eq", subject, _integer(t, pattern))
        return literals.condition(t, pattern, entry)
    if isinstance(pattern, ast.MatchOr):
        result: Value | bool = False
        for part in pattern.patterns:
            cond = _matches(t, part, subject)
            if cond is True or result is True:
                result = True
            elif isinstance(cond, Value):
                result = t.emit(pattern, "or", result, cond) if isinstance(result, Value) else cond
        return result
    if isinstance(pattern, ast.MatchAs):
        inner = True if pattern.pattern is None else _matches(t, pattern.pattern, subject)
        if pattern.name is not None:
            t.assign(pattern.name, subject)
        return inner
    t.fail(pattern, "a case matches integers, alternatives (|), a name or _")


def _static(t: Tracer, node: ast.Match, subject: Entry) -> None:
    """A subject known now: only the case that fits is traced."""
    if not is_number(subject) or isinstance(subject, float):
        t.fail(node.subject, f"match takes an integer, found {describe(subject)}")
    _chain(t, node, subject, 0)
