"""Which nodes wait for the one that reads them, and which update a state in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..ir.graph.core import Graph, Node
from ..ir.graph.table import OPS

# producer -> the ops whose rules take it together with themselves
_TAKEN = {"gather": ("dequantize",), "silu": ("mul",), "gelu": ("mul",)}


def deferrable(nodes: Sequence[Node], last: Mapping[int, int]) -> dict[int, int]:
    """Nodes, by their numbers, that one node reads, alone, which may take them; and appends to a
    cache that another one of the same rows follows: each with the number of the other node."""
    uses = Counter(t.id for node in nodes for t in node.operands)
    found = {}
    for n, node in enumerate(nodes):
        result = node.results[0].id
        reader = last.get(result, len(nodes))
        alone = reader < len(nodes) and uses[result] == 1
        if alone and nodes[reader].op in _TAKEN.get(node.op, ()):
            found[n] = reader
        if node.op == "kv_append" and (sibling := _sibling(nodes, n)) is not None:
            first_use = min(
                (k for k, x in enumerate(nodes) if any(t.id == result for t in x.operands)),
                default=len(nodes),
            )
            if sibling < first_use:
                found[n] = sibling
    return found


def _sibling(nodes: Sequence[Node], n: int) -> int | None:
    """The next append by the same table, sequences and positions, if this one is the first of the
    two."""
    alike = [
        k
        for k, x in enumerate(nodes)
        if x.op == "kv_append" and x.operands[2:] == nodes[n].operands[2:]
    ]
    place = alike.index(n)
    return alike[place + 1] if place % 2 == 0 and place + 1 < len(alike) else None


def updated_in_place(graph: Graph) -> set[int]:
    """The tensors, by number, that are made in a donated state's memory: from the value that is
    committed back to the state, over ops that update or reshape their first operand."""
    makers = {result.id: node for node in graph.nodes for result in node.results}
    found = set()
    for commit in graph.commits:
        if not commit.donates:
            continue
        value, chain = commit.value, set()
        while (node := makers.get(value.id)) is not None and (
            OPS[node.op].updates or node.op == "reshape"
        ):
            chain.add(value.id)
            value = node.operands[0]
        if value == commit.state:
            found |= chain
    return found
