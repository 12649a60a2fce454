"""What may be made in the memory of a state.

A commit that donates names a value made from the state by updates and reshapes alone: the *chain*.
All of it, and whatever is a reshape of a part of it, lies in one memory, whose content is another
one from each update on. Nothing may read a content behind the update that ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .core import Commit, Graph, Node
from .table import OPS

VIEWS = frozenset({"reshape"})


class Lifetimes:
    """Who makes and who reads each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.end = graph, len(graph.nodes)
        self.made: dict[int, int] = {}
        self.readers: dict[int, list[tuple[int, str]]] = {}  # place in the order, what it is
        for at, node in enumerate(graph.nodes):
            self.made.update((result.id, at) for result in node.results)
            for operand in {tensor.id for tensor in node.operands}:
                self._read(operand, at, f"{node.results[0]} = {node.op} reads")
        for output in graph.outputs:
            self._read(output.tensor.id, self.end, f"output {output.name!r} is")
        for commit in graph.commits:
            self._read(commit.value.id, self.end, f"commit {commit.state} takes")

    def _read(self, value: int, at: int, what: str) -> None:
        self.readers.setdefault(value, []).append((at, what))

    def chain(self, commit: Commit) -> list[int] | None:
        """The values from the state to the committed one; None where something else than updates
        and reshapes lies between."""
        found = [commit.value.id]
        while found[-1] != commit.state.id:
            at = self.made.get(found[-1])
            node = None if at is None else self.graph.nodes[at]
            if node is None or not (OPS[node.op].updates or node.op in VIEWS):
                return None
            if node.results[0].id != found[-1]:
                return None
            found.append(node.operands[0].id)
        return found[::-1]

    def views(self, value: int) -> Iterator[int]:
        """A value and all reshapes of it."""
        pending = [value]
        while pending:
            value = pending.pop()
            yield value
            places = (at for at, _ in self.readers.get(value, ()) if at < self.end)
            nodes = (self.graph.nodes[at] for at in places)
            pending += [node.results[0].id for node in nodes if node.op in VIEWS]

    def fault(self, commit: Commit) -> str:
        """Why a commit cannot be made in place; empty where it can."""
        chain = self.chain(commit)
        if chain is None:
            return (
                f"{commit.value} is no update of the state: nothing is made in its memory; commit"
                " without donating, or update by scatter"
            )
        content: list[int] = []  # values of the present content
        for value, after in zip(chain, [*chain[1:], None], strict=True):
            content.append(value)
            if after is None:
                break  # the last content stays
            at = self.made[after]
            if OPS[self.graph.nodes[at].op].updates:
                if fault := self._read_late(content, at):
                    return fault
                content = []
        return ""

    def _read_late(self, content: list[int], update: int) -> str:
        """What reads one of these values, or a reshape of it, behind an update or beside it."""
        values = {view for value in content for view in self.views(value)}
        node: Node = self.graph.nodes[update]
        if sum(tensor.id in values for tensor in node.operands) > 1:
            return f"{node.results[0]} = {node.op} updates %{node.operands[0].id} by itself"
        for value in sorted(values):
            for at, what in self.readers.get(value, ()):
                if at > update and not (at < self.end and self.graph.nodes[at].op in VIEWS):
                    return f"{what} %{value}, which {node.results[0]} = {node.op} updates before"
        return ""


def in_place(graph: Graph) -> frozenset[int]:
    """All values in memories of states that commits donate. A rewrite that lets one of them be read
    where it was not read before may take the donation away."""
    donating = [commit for commit in graph.commits if commit.donates]
    if not donating:
        return frozenset()
    lifetimes = Lifetimes(graph)
    chains = [lifetimes.chain(commit) or [] for commit in donating]
    return frozenset(v for chain in chains for value in chain for v in lifetimes.views(value))
