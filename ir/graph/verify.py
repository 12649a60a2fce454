"""Whether a graph is one: values before their uses, types as the ops give them, states once."""

from __future__ import annotations

from .core import Commit, Graph, Node, Origin, Source, Tensor
from .donation import Lifetimes
from .table import complete, find, infer
from .types import GraphTypeError, TensorType


class GraphError(ValueError):
    """A graph that is none. where: the node or source. Its text says what is expected there."""

    def __init__(self, graph: str, where: str, what: str) -> None:
        super().__init__(f"graph {graph!r}, {where}: {what}")
        self.graph, self.where, self.what = graph, where, what


def verify(graph: Graph) -> None:
    """Raises GraphError for the first fault."""
    _Verifier(graph).run()


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known: dict[int, Tensor] = {}
        self.states = {source.tensor.id for source in graph.of(Origin.STATE)}

    def run(self) -> None:
        names: set[str] = set()
        for source in self.graph.sources:
            self._source(source, names)
        for node in self.graph.nodes:
            self._node(node)
        names.clear()
        for output in self.graph.outputs:
            where = f"output {output.name!r}"
            self._check(bool(output.name), where, "it has no name")
            self._check(output.name not in names, where, "another output has this name")
            names.add(output.name)
            self._use(output.tensor, where)
        self.lifetimes = Lifetimes(self.graph)
        states: set[int] = set()
        for commit in self.graph.commits:
            self._commit(commit, states)

    def _check(self, condition: bool, where: str, what: str) -> None:
        if not condition:
            raise GraphError(self.graph.name, where, what)

    def _define(self, tensor: Tensor, where: str) -> None:
        self._check(tensor.id not in self.known, where, f"{tensor} is defined twice")
        self.known[tensor.id] = tensor

    def _use(self, tensor: Tensor, where: str) -> None:
        known = self.known.get(tensor.id)
        self._check(known is not None, where, f"{tensor} is not defined before")
        assert known is not None
        self._check(known == tensor, where, f"{tensor} is {known.type}, not {tensor.type}")

    def _source(self, source: Source, names: set[str]) -> None:
        where = f"{source.origin.value} {source.name!r}"
        self._check(bool(source.name), where, "it has no name")
        self._check(source.name not in names, where, "another source has this name")
        names.add(source.name)
        self._define(source.tensor, where)
        if source.data is not None:
            self._check(source.origin is Origin.CONSTANT, where, "a constant alone has bytes")
            count, got = source.tensor.type.bytes, len(source.data)
            self._check(count == got, where, f"{source.tensor.type} has {count} bytes, not {got}")
            if source.tensor.type.dtype.is_bool:
                self._check(set(source.data) <= {0, 1}, where, "a bool is a byte 0 or 1")

    def _node(self, node: Node) -> None:
        where = " ".join([*map(str, node.results[:1]), "=", node.op])
        where += f" ({node.loc})" if node.loc else ""
        for operand in node.operands:
            self._use(operand, where)
        types: tuple[TensorType, ...] = ()
        try:
            find(node.op)
            whole = complete(node.op, dict(node.attrs))
            types = infer(node.op, [tensor.type for tensor in node.operands], dict(whole))
        except GraphTypeError as error:
            raise GraphError(self.graph.name, where, str(error)) from error
        same = whole == node.attrs and [type(v) for _, v in whole] == [
            type(v) for _, v in node.attrs
        ]
        self._check(same, where, "attributes are all there, of their kinds and in their order")
        given = tuple(tensor.type for tensor in node.results)
        if given != types:
            expected, got = (", ".join(map(str, found)) for found in (types, given))
            self._check(False, where, f"it gives {expected}, not {got}")
        for tensor in node.results:
            self._define(tensor, where)

    def _commit(self, commit: Commit, states: set[int]) -> None:
        where = f"commit {commit.state}"
        self._use(commit.state, where)
        self._use(commit.value, where)
        self._check(commit.state.id in self.states, where, f"{commit.state} is no state")
        self._check(commit.state.id not in states, where, "it is committed twice")
        states.add(commit.state.id)
        expected, got = commit.state.type, commit.value.type
        self._check(expected == got, where, f"the state is {expected}, the value {got}")
        if commit.donates:
            fault = self.lifetimes.fault(commit)
            self._check(not fault, where, fault)
