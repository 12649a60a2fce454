"""`for` over ranges, and `while`.

A `for` op counts upwards by one. Any other step becomes a trip count, computed in unsigned
arithmetic so that no bound can overflow, and the variable is start + counter * step.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core import Value, const_value
from ..dtypes import DType, bool_, unsigned
from ..limits import MAX_STEPS
from . import literals
from .assign import assign_to
from .exits import BREAK, NEXT, edge, leaving
from .frames import Exit
from .join import branch
from .loops import Plan, emit_for, emit_while, loop
from .surface import TABLE
from .unrolled import repeated
from .values import Entry, describe

if TYPE_CHECKING:
    from .tracer import Tracer


def for_statement(t: Tracer, node: ast.For) -> None:
    """`for x in range(...)`, `static_range(...)` or a tuple."""
    if node.orelse:
        t.fail(node.orelse[0], "for ... else is not supported in a kernel")
    call = node.iter
    function = t.expression(call.func) if isinstance(call, ast.Call) else None
    if function is builtins.range:
        _range(t, node, _bounds(t, call))
    elif function is TABLE["static_range"]:
        bounds = [t.static_int(call, e, "a bound of static_range") for e in _bounds(t, call)]
        if bounds[2] == 0:
            t.fail(call, "the step of static_range is 0")
        items = builtins.range(*bounds)
        if items[MAX_STEPS:]:
            t.fail(call, f"static_range unrolls into over {MAX_STEPS} iterations; use range")
        unroll(t, node, items)
    else:
        entry = t.expression(call)
        if not isinstance(entry, tuple):
            t.fail(
                call, f"a for loop runs over range, static_range or a tuple, not {describe(entry)}"
            )
        unroll(t, node, entry)


def _bounds(t: Tracer, call: Any) -> list[Entry]:
    if call.keywords or not 1 <= len(call.args) <= 3:
        t.fail(call, f"range takes 1 to 3 arguments, found {len(call.args) + len(call.keywords)}")
    found = [t.expression(a) for a in call.args]
    for node, entry in zip(call.args, found, strict=True):
        if isinstance(entry, bool | float) or not isinstance(entry, int | Value):
            t.fail(node, f"the bounds of a range are integers, found {describe(entry)}")
        if isinstance(entry, Value) and not (isinstance(entry.type, DType) and entry.type.is_int):
            t.fail(node, f"the bounds of a range are integers, found {entry.type}")
    if len(found) == 1:
        found = [0, *found]
    return found if len(found) == 3 else [*found, 1]


def unroll(t: Tracer, node: ast.For, items: Sequence[Entry]) -> None:
    """Trace the body once per item."""
    live = t.frame.live
    behind = live.after[id(node)] | live.head[id(node)]
    exit_ = Exit(unrolled=t.number(), live=behind)
    t.frame.exits.append(exit_)
    number = exit_.unrolled
    assert number is not None
    t.state[(number, BREAK)] = t.state[(number, NEXT)] = False
    _iterations(t, node, items, number)
    t.frame.exits.pop()
    t.state.pop((number, BREAK), None)
    t.state.pop((number, NEXT), None)


def _iterations(t: Tracer, node: ast.For, items: Sequence[Entry], number: int) -> None:
    for n, item in enumerate(items):
        assign_to(t, node.target, item)
        t.block(node.body)
        if t.dead:
            return
        t.state[(number, NEXT)] = False
        certain, flag = leaving(t)
        if certain:
            return
        if flag is not None and n + 1 < len(items):
            from .statements import guard

            guard(t, node, flag, partial(_iterations, t, node, items[n + 1 :], number))
            return
        if n == 0 and type(items) is builtins.range and repeated(t, node, items[1:]):
            return


def _range(t: Tracer, node: ast.For, bounds: list[Entry]) -> None:
    values, weak = literals.common(t, node.iter, bounds, "range")
    low, high, step = values
    if weak:
        for part, entry in zip(("start", "end", "step"), bounds, strict=True):
            if isinstance(entry, int):
                literals.check_literal(t, node.iter, entry, t.index, f" for the {part} of a range")
    dtype = low.type
    assert isinstance(dtype, DType)
    plan = Plan(node, lambda: t.block(node.body))
    if bounds[2] == 1:
        body = plan.body

        def counted(counter: Value) -> None:
            t.state[_slot(t, node)] = counter

        def probe_body() -> None:
            assign_to(t, node.target, t.builder.value(dtype))
            body()

        _trace(t, plan, low, high, counted, probe_body)
        return
    trips = trip_count(t, node.iter, low, high, step, bounds[2], dtype)
    zero = t.const(node.iter, 0, unsigned(dtype))

    def scaled(counter: Value) -> None:
        offset = counter
        if dtype.is_signed:
            offset = t.emit(node, "convert", counter, type=dtype)
        offset = t.emit(node, "mul", offset, step)
        slot = _slot(t, node)
        t.state[slot] = t.builder.name_last(t.emit(node, "add", low, offset), slot[1])

    body = plan.body

    def probe_scaled() -> None:
        assign_to(t, node.target, t.builder.value(dtype))
        body()

    _trace(t, plan, zero, trips, scaled, probe_scaled)


def _slot(t: Tracer, node: ast.For) -> tuple[int, str]:
    if not isinstance(node.target, ast.Name):
        t.fail(node.target, "the variable of a range loop is one name")
    return (t.frame.number, node.target.id)


def _trace(t: Tracer, plan: Plan, low: Value, high: Value, counted: Any, probe_body: Any) -> None:
    real = plan.body
    plan.body = probe_body

    def emit(plan: Plan) -> bool:
        plan.body = real
        return emit_for(t, plan, low, high, counted)

    loop(t, plan, emit)


def trip_count(
    t: Tracer, node: ast.AST, low: Value, high: Value, step: Value, known: Entry, dtype: DType
) -> Value:
    """Iterations of range(low, high, step), unsigned; 0 for a step of 0."""
    if known == 0 and isinstance(known, int):
        t.fail(node, "the step of a range is 0")
    up = _trips(t, node, low, high, step, dtype, False)
    if isinstance(known, int):
        return up if known > 0 else _trips(t, node, high, low, step, dtype, True)
    zero, none = t.const(node, 0, dtype), t.const(node, 0, unsigned(dtype))
    positive = t.emit(node, "gt", step, zero)
    if not dtype.is_signed:
        return t.emit(node, "select", positive, up, none)
    down = _trips(t, node, high, low, step, dtype, True)
    negative = t.emit(node, "lt", step, zero)
    return t.emit(node, "select", positive, up, t.emit(node, "select", negative, down, none))


def _trips(
    t: Tracer, node: ast.AST, low: Value, high: Value, step: Value, dtype: DType, down: bool
) -> Value:
    """(high - low - 1) // |step| + 1 where low < high, else 0: all of it fits the unsigned type."""
    wide = unsigned(dtype)

    def as_unsigned(v: Value) -> Value:
        if dtype == wide:
            return v
        made = next((op for op in t.builder.ops[-12:] if v in op.results), None)
        if made is not None and made.name == "const":
            t.asked.append(v.id)
            return t.const(node, int(const_value(made)), wide)
        return t.emit(node, "convert", v, type=wide)

    one, none = t.const(node, 1, wide), t.const(node, 0, wide)
    span = t.emit(node, "sub", as_unsigned(high), as_unsigned(low))
    stride = as_unsigned(step)
    if down:
        stride = t.emit(node, "neg", stride)
    whole = t.emit(node, "floordiv", t.emit(node, "sub", span, one), stride)
    some = t.emit(node, "lt", low, high)
    return t.emit(node, "select", some, t.emit(node, "add", whole, one), none)


def while_statement(t: Tracer, node: ast.While) -> None:
    """`while`; a condition that changes variables is tested inside the body."""
    if node.orelse:
        t.fail(node.orelse[0], "while ... else is not supported in a kernel")
    inner = list(ast.walk(node.test))
    cells = any(isinstance(slot[1], int) for slot in t.state)
    changes = any(isinstance(n, ast.NamedExpr) for n in inner) or (
        cells and any(isinstance(n, ast.Call) for n in inner)
    )
    if isinstance(node.test, ast.Constant) and not node.test.value:
        return
    endless = isinstance(node.test, ast.Constant)

    def test() -> Value:
        cond = literals.condition(t, node.test, t.expression(node.test))
        return t.const(node.test, cond, bool_) if isinstance(cond, bool) else cond

    def tested_body() -> None:
        cond = test()
        exit_ = t.frame.exits[-1]
        branch(t, node.test, cond, lambda: None, lambda: edge(t, node.test, exit_, "break"))
        t.block(node.body)

    if changes:
        plan = Plan(node, tested_body, endless=True)
    else:
        plan = Plan(node, lambda: t.block(node.body), endless, None if endless else test)
    loop(t, plan, lambda p: emit_while(t, p))
