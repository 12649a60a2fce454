"""What each expression of a kernel stands for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from ..core import Value
from ..dtypes import DType, FragmentType, VectorType, element_of
from ..limits import MAX_ITEMS
from ..ops import ROWS, Effect
from . import literals, memory
from .budget import bounded
from .calls import call
from .diagnostics import suggest
from .join import FLATTEN, branch, finish, trace_arm
from .operators import BINARY, binary, compare, unary
from .surface import BufferMarker, BuffersMarker, SlotMarker
from .values import Entry, Memory, Registers, SlotRef, describe

if TYPE_CHECKING:
    from .tracer import Tracer

_MARKERS = (BufferMarker, BuffersMarker, SlotMarker)
VALUE = "<value>"  # the slot in which the arms of an expression leave their results


def _constant(t: Tracer, node: ast.Constant) -> Entry:
    if isinstance(node.value, (bytes, complex)) or node.value is Ellipsis:
        t.fail(node, f"a {type(node.value).__name__} literal is not supported in a kernel")
    return bounded(t, node, node.value)


def _name(t: Tracer, node: ast.Name) -> Entry:
    entry = t.lookup(node)
    return memory.slot_value(t, node, entry) if type(entry) is SlotRef else entry


def _tuple(t: Tracer, node: ast.Tuple) -> Entry:
    found: list[Entry] = []
    for part in node.elts:
        if isinstance(part, ast.Starred):
            entry = t.expression(part.value)
            if not isinstance(entry, tuple):
                t.fail(part, f"expected a tuple after *, found {describe(entry)}")
            found += entry
        else:
            found.append(t.expression(part))
        if len(found) > MAX_ITEMS:
            break
    return bounded(t, node, tuple(found))


def _binary(t: Tracer, node: ast.BinOp) -> Entry:
    a = t.expression(node.left)
    return binary(t, node, BINARY[type(node.op)], a, t.expression(node.right))


def _subscript(t: Tracer, node: ast.Subscript) -> Entry:
    base = t.expression(node.value)
    index = t.expression(node.slice)
    if isinstance(base, _MARKERS):
        try:
            return base[index]
        except (TypeError, ValueError) as error:
            t.fail(node, str(error))
    return memory.element(t, node, base, index)


def _slice(t: Tracer, node: ast.Slice) -> Entry:
    parts = [node.lower, node.upper, node.step]
    found = [None if p is None else t.static(p, "a bound of a slice") for p in parts]
    return slice(*found)


def _attribute(t: Tracer, node: ast.Attribute) -> Entry:
    base = t.expression(node.value)
    name = node.attr
    if isinstance(base, ModuleType):
        if not hasattr(base, name):
            t.fail(node, f"module {base.__name__} has no {name!r}{suggest(name, dir(base))}")
        return getattr(base, name)
    if isinstance(base, Value) and name in ("dtype", "type"):
        return element_of(base.type) if name == "dtype" else base.type
    if isinstance(base, Value) and isinstance(base.type, VectorType):
        lane = "xyzw".find(name) if len(name) == 1 else -1
        if not 0 <= lane < base.type.lanes:
            t.fail(
                node, f"{base.type} has no lane {name!r}; expected one of x, y, z, w or an index"
            )
        return t.emit(node, "extract", base, lane=lane)
    facts: dict[str, Any] = {}
    if isinstance(base, Memory):
        facts = {"dtype": base.type.element, "shape": base.shape}
    elif isinstance(base, Registers):
        facts = {"dtype": base.type, "shape": base.shape}
    elif isinstance(base, DType):
        facts = {
            n: getattr(base, n)
            for n in ("bits", "bytes", "name", "is_float", "is_int", "is_signed", "is_bool")
        }
        if base.is_int:
            facts |= {"min": base.min, "max": base.max}
    elif isinstance(base, VectorType):
        facts = {"element": base.element, "lanes": base.lanes}
    elif isinstance(base, FragmentType):
        shape = (base.rows, base.columns)
        facts = {"element": base.element, "role": base.role, "shape": shape}
    if facts.get(name) is None:
        hint = suggest(name, (n for n, fact in facts.items() if fact is not None))
        if isinstance(base, Memory) and name in ("shape", "size"):
            hint = "; len(...) is how many elements it has"
        t.fail(node, f"{describe(base)} has no attribute {name!r}{hint}")
    return facts[name]


def _compare(t: Tracer, node: ast.Compare) -> Entry:
    """A chain; later operands are evaluated only as far as Python would, each once."""
    return _links(t, node, t.expression(node.left), 0)


def _links(t: Tracer, node: ast.Compare, left: Entry, n: int) -> Entry:
    right = t.expression(node.comparators[n])
    link = compare(t, node, node.ops[n], left, right)
    if n + 1 == len(node.ops):
        return link
    return _short_circuit(t, node, True, link, lambda: _links(t, node, right, n + 1))


def _bool_op(t: Tracer, node: ast.BoolOp) -> Entry:
    return _operands(t, node, isinstance(node.op, ast.And), 0)


def _operands(t: Tracer, node: ast.BoolOp, is_and: bool, n: int) -> Entry:
    entry = t.expression(node.values[n])
    if n + 1 == len(node.values):
        return entry
    return _short_circuit(t, node, is_and, entry, lambda: _operands(t, node, is_and, n + 1))


def _short_circuit(
    t: Tracer, node: ast.expr, is_and: bool, left: Entry, right: Callable[[], Entry]
) -> Entry:
    """`left and right()` (or `or`): an op where the right side is pure, else an if."""
    cond = literals.condition(t, node, left)
    if isinstance(cond, bool):
        return right() if cond is is_and else left
    result: list[Entry] = []
    slot = (t.frame.number, VALUE)

    def tail() -> None:
        entry = literals.condition(t, node, right())
        result.append(entry)
        t.state[slot] = entry

    mark = t.builder.next_id
    arm = trace_arm(t, node, "the left side decides nothing", tail)
    entry = result[0]
    harmless = (Effect.PURE, Effect.ID)
    pure = len(arm.ops) <= FLATTEN and all(ROWS[op.name].effect in harmless for op in arm.ops)
    names = {k: v for k, v in arm.state.items() if k[1] != VALUE}
    if pure and names == {k: v for k, v in t.state.items() if k[1] != VALUE}:
        t.builder.ops.extend(arm.ops)
        if isinstance(entry, bool):
            return cond if entry is is_and else (not is_and)
        return t.emit(node, "and" if is_and else "or", cond, entry)

    def short() -> None:
        t.state[slot] = not is_and

    other = trace_arm(t, node, "the left side decides", short)
    arms = [arm, other] if is_and else [other, arm]
    finish(t, node, "if", cond, arms, {}, mark, None)
    return t.state.pop(slot)


def _if_expression(t: Tracer, node: ast.IfExp) -> Entry:
    cond = literals.condition(t, node.test, t.expression(node.test))
    if isinstance(cond, bool):
        return t.expression(node.body if cond else node.orelse)
    slot = (t.frame.number, VALUE)

    def arm(part: ast.expr) -> Callable[[], None]:
        def run() -> None:
            t.state[slot] = t.expression(part)

        return run

    branch(t, node, cond, arm(node.body), arm(node.orelse), flatten=True)
    entry = t.state.pop(slot)
    from .values import Conflict

    if isinstance(entry, Conflict):
        t.fail(node, f"the two sides of a conditional expression do not fit: {entry.reason}")
    return entry


def _walrus(t: Tracer, node: ast.NamedExpr) -> Entry:
    entry = t.expression(node.value)
    assert isinstance(node.target, ast.Name)
    t.assign(node.target.id, entry)
    return t.state[(t.frame.number, node.target.id)]


NAMES: dict[type[ast.expr], str] = {
    ast.Lambda: "lambda",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Await: "await",
    ast.JoinedStr: "an f-string",
    ast.FormattedValue: "an f-string",
    ast.Dict: "a dict",
    ast.Set: "a set",
    ast.List: "a list",
    ast.Starred: "a starred expression",
}
_INSTEAD: dict[type[ast.expr], str] = {
    ast.List: "; use a tuple, or an array (registers, private_array, workgroup_array)",
    ast.Lambda: "; decorate a function of the module with @device",
    ast.JoinedStr: "; print takes its parts as arguments",
}


def unsupported(t: Tracer, node: ast.expr) -> NoReturn:
    t.refuse_construct(node, NAMES, _INSTEAD)


LEAVES = (ast.Name, ast.Constant)  # no expression stands within them
EXPRESSIONS: dict[type[ast.expr], Callable[..., Entry]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.BinOp: _binary,
    ast.UnaryOp: unary,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_expression,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Attribute: _attribute,
    ast.Call: call,
    ast.NamedExpr: _walrus,
}
