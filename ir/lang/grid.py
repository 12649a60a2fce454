"""The decorator's expressions: workgroup sizes, and grids as expressions of `ir.abi.evaluate`."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from ..abi import evaluate
from ..core import Attr, Value
from ..limits import MAX_INVOCATIONS
from .budget import bounded
from .surface import TABLE
from .values import Entry, Memory, describe

if TYPE_CHECKING:
    from .tracer import Tracer

_OPS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floordiv",
}


def workgroup_size(t: Tracer, node: ast.expr) -> tuple[int, int, int]:
    """One to three positive ints."""
    entry = t.static(node, "the workgroup size")
    parts = entry if isinstance(entry, tuple) else (entry,)
    if not 1 <= len(parts) <= 3:
        t.fail(node, f"a workgroup has 1 to 3 dimensions, found {len(parts)}")
    sizes = [t.static_int(node, p, "a workgroup size") for p in parts] + [1, 1]
    if min(sizes) < 1 or sizes[0] * sizes[1] * sizes[2] > MAX_INVOCATIONS:
        t.fail(
            node,
            f"a workgroup has positive sizes and at most {MAX_INVOCATIONS} invocations, "
            f"found {tuple(sizes[:3])}",
        )
    return (sizes[0], sizes[1], sizes[2])


def grid_size(t: Tracer, node: ast.expr) -> tuple[Attr, Attr, Attr]:
    """One to three grid expressions."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    if not 1 <= len(parts) <= 3:
        t.fail(node, f"a grid has 1 to 3 dimensions, found {len(parts)}")
    sizes: list[Attr] = [_expression(t, p) for p in parts]
    sizes += [1, 1]
    return (sizes[0], sizes[1], sizes[2])


def _expression(t: Tracer, node: ast.expr) -> Attr:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPS:
        a, b = _expression(t, node.left), _expression(t, node.right)
        return _combine(t, node, _OPS[type(node.op)], a, b)
    if isinstance(node, ast.Call):
        return _call(t, node)
    if isinstance(node, ast.IfExp):
        chosen = node.body if t.static(node.test, "the choice of a grid size") else node.orelse
        return _expression(t, chosen)
    if isinstance(node, ast.Name):
        entry = t.lookup(node)
        if isinstance(entry, Value):
            return ("scalar", node.id)
        return _constant(t, node, entry)
    return _constant(t, node, t.static(node, "a grid size"))


def _call(t: Tracer, node: ast.Call) -> Attr:
    function = t.expression(node.func)
    if function is builtins.len and len(node.args) == 1:
        entry = t.expression(node.args[0])
        if isinstance(entry, Memory):
            return ("count", entry.name)
        if isinstance(entry, tuple):
            return len(entry)
        t.fail(node, f"len in a grid takes a buffer, found {describe(entry)}")
    names: dict[object, str] = {builtins.min: "min", builtins.max: "max"}
    names |= {TABLE["ceil_div"]: "ceil_div"}
    name = names.get(function) if callable(function) else None
    if name is None or len(node.args) < 2 or node.keywords:
        t.fail(
            node, "a grid is made of len(buffer), scalars, constexprs, + - * //, ceil_div, min, max"
        )
    result = _expression(t, node.args[0])
    for part in node.args[1:]:
        result = _combine(t, node, name, result, _expression(t, part))
    return result


def _combine(t: Tracer, node: ast.expr, name: str, a: Attr, b: Attr) -> Attr:
    if isinstance(a, int) and isinstance(b, int) and not (b == 0 and "div" in name):
        found: int = bounded(t, node, evaluate((name, a, b), {}, {}))
        return found
    return (name, a, b)


def _constant(t: Tracer, node: ast.expr, entry: Entry) -> Attr:
    return t.static_int(node, entry, "a grid size")
