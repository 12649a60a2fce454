"""Evaluation of a graph, node by node, with a limit on how much work that may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..composite import decomposed
from ..core import Graph, Node, Origin, Source
from ..table import OPS
from ..types import TensorType
from . import indexing as indexing
from . import movement as movement
from . import products as products
from . import reductions as reductions
from . import rows
from .precision import Array, Precision

DECLARED, WIDE = Precision.DECLARED, Precision.WIDE
BUDGET = 10**10  # operations of elements: from seconds, for products, to minutes, for functions


class WorkBudgetError(ValueError):
    """A graph of more operations than are allowed. expected: the limit. got: its operations."""

    def __init__(self, graph: str, expected: int, got: int) -> None:
        super().__init__(
            f"graph {graph!r}: {got:,} operations, of at most {expected:,}: evaluate smaller shapes"
            " or raise the budget"
        )
        self.expected, self.got = expected, got


class GraphFault(RuntimeError):  # noqa: N818 - what devices report is called that
    """What a node does not do with these values, such as a place outside of a tensor."""


@dataclass(frozen=True, slots=True)
class Results:
    """Outputs by name, and by name what states are afterwards; in the types that memory has
    (uint16 for bf16, uint8 for 8-bit floats), but float64 for all floats of a WIDE evaluation."""

    outputs: dict[str, Array] = field(default_factory=dict)
    states: dict[str, Array] = field(default_factory=dict)


def evaluate(
    graph: Graph,
    given: Mapping[str, Array],
    precision: Precision = DECLARED,
    budget: int = BUDGET,
) -> Results:
    """Outputs and new states for inputs, slots, constants and states by name, each as numpy holds
    its type in memory; states that are not given are zeros. f64 arrays may stand for other floats.

    Raises KeyError for a name that is missing or not the graph's, ValueError for another shape or
    type, WorkBudgetError before anything is computed, and GraphFault.
    """
    got = work(graph)
    if got > budget:
        raise WorkBudgetError(graph.name, budget, got)
    known = {source.name for source in graph.sources if source.data is None}
    if unknown := sorted(set(given) - known):
        raise KeyError(f"graph {graph.name!r} takes no {unknown[0]!r}: it takes {sorted(known)}")
    values: dict[int, Array] = {}
    for source in graph.sources:
        values[source.tensor.id] = _given(graph, source, given, precision)
    ends = [o.tensor for o in graph.outputs] + [c.value for c in graph.commits]
    kept = [*ends, *(source.tensor for source in graph.of(Origin.STATE))]
    _run(graph.nodes, values, precision, {tensor.id for tensor in kept})
    stored = {t.id: precision.store(values[t.id], t.type.dtype) for t in ends}
    outputs = {output.name: stored[output.tensor.id] for output in graph.outputs}
    new = {commit.state.id: commit.value.id for commit in graph.commits}
    states = {
        source.name: stored[new[source.tensor.id]]
        if source.tensor.id in new
        else precision.store(values[source.tensor.id], source.tensor.type.dtype)
        for source in graph.of(Origin.STATE)
    }
    return Results(outputs, states)


def work(graph: Graph) -> int:
    """Elementary operations of a graph, composites by what they stand for."""
    return sum(_node_work(node) for node in graph.nodes)


def _node_work(node: Node) -> int:
    if OPS[node.op].composite:
        types = tuple(tensor.type for tensor in node.operands)
        return work(decomposed(node.op, types, node.attrs))
    sizes = [tensor.type.size for tensor in (*node.operands, *node.results)]
    products = node.operands[0].type.shape[-1] if node.op == "matmul" else 0
    return max(*sizes, 2 * node.results[0].type.size * products)


def _given(graph: Graph, source: Source, given: Mapping[str, Array], precision: Precision) -> Array:
    t, name = source.tensor.type, source.name
    if source.data is not None:
        stored = np.frombuffer(source.data, t.dtype.storage.newbyteorder("<"))
        return precision.load(stored.astype(t.dtype.storage).reshape(t.shape), t.dtype)
    if name not in given:
        if source.origin is Origin.STATE:
            return precision.load(np.zeros(t.shape, t.dtype.storage), t.dtype)
        raise KeyError(f"graph {graph.name!r}: {source.origin.value} {name!r}, {t}, is missing")
    array = np.asarray(given[name])
    if array.shape != t.shape:
        raise ValueError(f"{source.origin.value} {name!r} is {t}, not of shape {array.shape}")
    if t.dtype.is_float and array.dtype == np.float64:
        return precision.rounded(array, t.dtype)
    if array.dtype != t.dtype.storage:
        raise ValueError(
            f"{source.origin.value} {name!r} is {t}: numpy's {t.dtype.storage}, not {array.dtype}"
        )
    return precision.load(array, t.dtype)


def _run(
    nodes: Sequence[Node], values: dict[int, Array], precision: Precision, kept: set[int]
) -> None:
    """Values that nothing reads any more go at once, but for those that are `kept`."""
    last = {tensor.id: node for node in nodes for tensor in node.operands}
    for node in nodes:
        operands = [values[tensor.id] for tensor in node.operands]
        with np.errstate(all="ignore"):
            results = _node(node, operands, precision)
        for tensor, value in zip(node.results, results, strict=True):
            _check(node, tensor.type, value, precision)
            values[tensor.id] = value
        for tensor in (*node.operands, *node.results):
            if last.get(tensor.id, node) is node and tensor.id not in kept:
                values.pop(tensor.id, None)


def _node(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    if not OPS[node.op].composite:
        try:
            return rows.find(node)(node, operands, precision)
        except IndexError as error:
            where = f" ({node.loc})" if node.loc else ""
            raise GraphFault(f"{node.results[0]} = {node.op}{where}: {error}") from error
    body = decomposed(node.op, tuple(tensor.type for tensor in node.operands), node.attrs)
    given, values = iter(operands), dict[int, Array]()
    for source in body.sources:
        written = source.data is not None
        values[source.tensor.id] = _given(body, source, {}, precision) if written else next(given)
    _run(body.nodes, values, precision, {output.tensor.id for output in body.outputs})
    return [values[output.tensor.id] for output in body.outputs]


def _check(node: Node, t: TensorType, value: Array, precision: Precision) -> None:
    """A row of the oracle that gives another shape or type is a bug of the oracle."""
    wanted = np.dtype(np.float64) if precision is WIDE and t.dtype.is_float else None
    held = wanted or (t.dtype.storage if t.dtype.computes and t.dtype.name != "bf16" else None)
    assert value.shape == t.shape, f"{node.op} gave {value.shape}, not {t}"
    assert held is None or value.dtype == held, f"{node.op} gave {value.dtype}, not {t}"
