"""Whether a graph is one: values before their uses, types as the ops give them, states once."""

from __future__ import annotations

from .core import Commit, Graph, Node, Origin, Source, Tensor
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

    def run(self) -> None:
        names: set[str] = set()
        for source in self.graph.sources:
            self._source(source, names)
        for node in self.graph.nodes:
            self._node(node)
        names.clear()
        for output in self.graph.outputs:
            where = f"output {output.name!r}"
            self._check(output.name not in names, where, "another output has this name")
            names.add(output.name)
            self._use(output.tensor, where)
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
        self._check(whole == node.attrs, where, "attributes are all there and in their order")
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
        of_states = {source.tensor.id for source in self.graph.of(Origin.STATE)}
        self._check(commit.state.id in of_states, where, f"{commit.state} is no state")
        self._check(commit.state.id not in states, where, "it is committed twice")
        states.add(commit.state.id)
        expected, got = commit.state.type, commit.value.type
        self._check(expected == got, where, f"the state is {expected}, the value {got}")
        if commit.donates:
            self._donation(commit, where)

    def _donation(self, commit: Commit, where: str) -> None:
        """The value comes from the state by updates alone, each of which is the last to read what
        it updates: so all of them can be made in place."""
        made = {result.id: n for n, node in enumerate(self.graph.nodes) for result in node.results}
        value = commit.value
        while value.id != commit.state.id:
            place = made.get(value.id)
            node = None if place is None else self.graph.nodes[place]
            same = node is not None and (find(node.op).updates or node.op == "reshape")
            updating = same and node is not None and value == node.results[0]
            what = f"{value} is no update of the state: nothing is made in its memory"
            self._check(updating, where, f"{what}; commit without donating, or update by scatter")
            assert node is not None
            assert place is not None
            old = node.operands[0]
            self._unread(old, place, where)
            value = old
        outputs = [o.tensor.id for o in self.graph.outputs]
        self._check(commit.state.id not in outputs, where, "the old state is an output")

    def _unread(self, old: Tensor, place: int, where: str) -> None:
        """Nothing reads a tensor behind the node that updates it, nor twice there."""
        readers = [n for n, node in enumerate(self.graph.nodes) if old in node.operands]
        late = [n for n in readers if n > place]
        what = "which is updated in its place before"
        if late:
            node = self.graph.nodes[late[0]]
            self._check(False, where, f"{node.results[0]} = {node.op} reads {old}, {what}")
        operands = self.graph.nodes[place].operands
        self._check(operands.count(old) == 1, where, f"{old} is updated by itself")
        read = [o.name for o in self.graph.outputs if o.tensor == old]
        self._check(not read, where, f"output {read[0] if read else ''!r} is {old}, {what}")
