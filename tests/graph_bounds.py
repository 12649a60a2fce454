"""How far off the outputs of a graph may be: running error analysis, node by node (Higham, Accuracy
and Stability of Numerical Algorithms, 3.3).

Beside each value, in f64, goes a bound of what any evaluation is off by that rounds after every op
as its type says, sums in any order, and has functions within the bounds of the op table. Of a bool
it is whether it may be the other one, of integers how far off they may be; where nothing is known
it is infinite. Second-order terms of a bound are covered by its factor (`SLACK`), as is that those
who made the expected values round in other places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gristmill.ir.dtypes import DType, f32
from gristmill.ir.graph import Graph, Node
from gristmill.ir.graph.decompose import decompose
from gristmill.ir.graph.elementwise import ELEMENTWISE
from gristmill.ir.graph.oracle import WIDE, rows
from gristmill.ir.graph.oracle.evaluate import _given
from gristmill.ir.ops import ROWS
from gristmill.kernels.family import gamma, least, u

SLACK = 4.0
MOVES = {"broadcast", "reshape", "transpose", "slice", "concat"}
Array = np.ndarray


def bounds(graph: Graph, given: Mapping[str, Array]) -> dict[str, tuple[Array, Array]]:
    """Of each output its value, and how far off another evaluation may be."""
    flat = decompose(graph)
    values: dict[int, tuple[Array, Array]] = {}
    for source in flat.sources:
        held = _given(flat, source, given, WIDE)
        values[source.tensor.id] = held, np.zeros(held.shape)
    with np.errstate(all="ignore"):
        for node in flat.nodes:
            operands = [values[t.id] for t in node.operands]
            made = rows.find(node)(node, [v for v, _ in operands], WIDE)
            for t, value in zip(node.results, made, strict=True):
                error = np.asarray(_error(node, operands, value), np.float64)
                error = np.where(np.isnan(error), np.inf, error)
                values[t.id] = value, np.broadcast_to(error, value.shape)
    return {o.name: values[o.tensor.id] for o in flat.outputs}


def _error(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Any:
    errors = [e for _, e in operands]
    if not any(e.any() for e in errors) and _exact(node):
        return np.zeros(value.shape)
    if node.op in MOVES:
        return rows.find(node)(node, errors, WIDE)[0]
    if node.op == "gather":
        x, at = errors
        return np.full(value.shape, np.inf) if at.any() else _moved(node, [x, operands[1][0]])
    if node.op == "pad":
        return _moved(node, errors)
    if node.op in ELEMENTWISE:
        return _elementwise(node, operands, value)
    return _OTHERS[node.op](node, operands, value)


def _moved(node: Node, operands: list[Array]) -> Array:
    found: Array = rows.find(node)(node, operands, WIDE)[0]
    return found


def _exact(node: Node) -> bool:
    """Whether what is made of exact operands is exact."""
    out = node.results[0].type.dtype
    if node.op == "cast":
        return not out.is_float or out.bits > node.operands[0].type.dtype.bits
    if node.op in ("reduce", "cumulative"):
        return not out.is_float or node.attr("kind") in ("max", "min")
    if node.op in ELEMENTWISE:
        row = ROWS[node.op]
        return not out.is_float or (row.exact and node.op not in ("add", "sub", "mul", "fma"))
    return not out.is_float or node.op not in ("matmul", "scatter")


def rounding(value: Array, dtype: DType, ulp: float = 0.5) -> Array:
    """An error of so many ulp."""
    if not dtype.is_float:
        return np.zeros(value.shape)
    return ulp * 2 * _u(dtype) * np.abs(np.where(np.isfinite(value), value, 0)) + least(dtype)


def _u(dtype: DType) -> float:
    """8-bit floats have 3 or 2 bits behind the point."""
    return u(dtype) if dtype.computes else 2.0 ** (-4 if dtype.name == "f8e4m3" else -3)


def greatest(dtype: DType) -> float:
    """The greatest value of a float type."""
    return _GREATEST[dtype.name]


_GREATEST = {
    "f64": 2.0**1023 * (2 - 2.0**-52), "f32": 2.0**127 * (2 - 2.0**-23), "f16": 65504.0,
    "bf16": 2.0**127 * (2 - 2.0**-7), "f8e4m3": 448.0, "f8e5m2": 57344.0,
}  # fmt: skip


def _elementwise(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    name, dtype = node.op, node.results[0].type.dtype
    first, off = operands[0]
    if name == "select":
        (a, ea), (b, eb) = operands[1:]
        apart = np.abs(a.astype(float) - b.astype(float)) + ea + eb
        kept = np.where(first, ea, eb)
        return np.where(off > 0, np.where(a == b, np.maximum(ea, eb), apart), kept)
    if dtype.is_bool:
        return _truth(node, operands)
    row = ROWS[name]
    ulp = 0.5 if row.exact or row.ulp is None else float(row.ulp)
    ends = _ends(node, operands)
    spread = np.max([np.abs(end.astype(float) - value) for end in ends], 0)
    spread = np.where(np.isinf(value) & (sum(e for _, e in operands) == 0), 0.0, spread)
    exact = row.exact and name not in ("add", "sub", "mul", "fma")
    return spread + (0 if exact else rounding(value, dtype, ulp))


def _ends(node: Node, operands: list[tuple[Array, Array]]) -> list[Array]:
    """The op at the ends of what its operands may be, and where it has an extreme between them."""
    found = []
    for signs in range(1 << len(operands)):
        at = []
        for n, (v, e) in enumerate(operands):
            sign = 1.0 if signs >> n & 1 else -1.0
            moved = v.astype(np.float64) + sign * np.where(e > 0, e, 0.0)
            at.append(moved if v.dtype.kind == "f" else np.trunc(moved).astype(v.dtype))
        found.append(_moved(node, at))
    return found


def _truth(node: Node, operands: list[tuple[Array, Array]]) -> Array:
    """Whether a comparison, or what is made of bools, may be the other one."""
    errors = [e for _, e in operands]
    if operands[0][0].dtype.kind == "b" or len(operands) == 1:
        return (sum(errors) > 0).astype(float)
    (a, ea), (b, eb) = operands
    apart = np.abs(a.astype(float) - b.astype(float))
    return ((ea + eb > 0) & ~(apart > ea + eb)).astype(float)


def _cast(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    dtype, ((x, e),) = node.results[0].type.dtype, operands
    if dtype.is_float:
        return e + rounding(value, dtype)
    if dtype.is_bool:
        return (~(np.abs(x.astype(float)) > e) & (e > 0)).astype(float)
    ends = _ends(node, operands)
    return np.max([np.abs(end.astype(float) - value.astype(float)) for end in ends], 0)


def _reduce(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    ((x, e),), axes, kind = operands, node.attr("axes"), node.attr("kind")
    if kind in ("max", "min"):
        return e.max(axes, initial=0.0)
    return _summed(node, x, e, value, lambda a: a.sum(axes), lambda a: a.prod(axes))


def _cumulative(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    ((x, e),) = operands
    sums = np.broadcast_to(np.abs(x).sum(node.attr("axis"), keepdims=True), x.shape)
    moved = np.broadcast_to(e.sum(node.attr("axis"), keepdims=True), x.shape)
    if node.attr("kind") == "prod":
        return np.full(value.shape, np.inf) if e.any() else _terms(node, x) * np.abs(value)
    return moved + _terms(node, x) * sums + rounding(value, node.results[0].type.dtype)


def _terms(node: Node, x: Array) -> float:
    """The bound of a sum or product of all elements along the dimensions of a node, in f32 where
    its type is narrower."""
    dtype = node.results[0].type.dtype
    if not dtype.is_float:
        return 0.0
    count = x.size / max(node.results[0].type.size, 1) if node.op == "reduce" else x.size
    return gamma(max(count, 2), f32 if dtype.bits < 32 else dtype)


def _summed(
    node: Node,
    x: Array,
    e: Array,
    value: Array,
    total: Callable[[Array], Array],
    product: Callable[[Array], Array],
) -> Array:
    once = rounding(value, node.results[0].type.dtype)
    if node.attr("kind") == "sum":
        return total(e) + _terms(node, x) * total(np.abs(x).astype(float)) + once
    size = np.abs(x).astype(float)
    return product(size + e) - product(size) + _terms(node, x) * np.abs(value) + once


def _matmul(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    (a, ea), (b, eb) = ((np.abs(v).astype(float), e) for v, e in operands)
    moved = a @ eb + ea @ b + ea @ eb
    dtype = node.results[0].type.dtype
    if not dtype.is_float:
        return moved
    wide = f32 if dtype.bits < 32 else dtype
    return moved + gamma(a.shape[-1] + 1, wide) * (a @ b) + rounding(value, dtype)


def _scatter(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    (x, ex), (at, ea), (y, ey) = operands
    if ea.any():
        return np.full(value.shape, np.inf)
    moved = _moved(node, [ex, at, ey])
    if node.attr("kind") == "set":
        return moved
    sums = _moved(node, [np.abs(x).astype(float), at, np.abs(y).astype(float)])
    dtype = node.results[0].type.dtype
    return moved + (gamma(len(at) + 1, dtype) * sums if dtype.is_float else 0)


def _order(node: Node, operands: list[tuple[Array, Array]], value: Array) -> Array:
    """Values move by as much as the operand's; which places they have is not known."""
    e = operands[0][1]
    return np.full(value.shape, e.max(initial=0.0) if value.dtype.kind == "f" else np.inf)


_OTHERS: dict[str, Callable[[Node, list[tuple[Array, Array]], Array], Array]] = {
    "cast": _cast,
    "reduce": _reduce,
    "cumulative": _cumulative,
    "matmul": _matmul,
    "scatter": _scatter,
    "arg_reduce": _order,
    "top_k": _order,
    "bitcast": lambda node, operands, value: np.full(value.shape, np.inf),
}
