"""One graph to launches: every node by the first rule that the kernels at hand allow.

A composite without a rule that applies is planned by its decomposition. A node whose operands never
change is planned into the load. A node that only another one reads, which may take both, is
deferred (`patterns`): it is planned where its value is asked for, or not at all. What cannot be
planned is refused by name, and planning goes on, so that one pass finds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..ir.graph.composite import decomposed
from ..ir.graph.core import Graph, Node, Origin, Tensor
from ..ir.graph.table import OPS
from ..ir.graph.types import TensorType
from ..ir.plan import Launch, Role, Scalar
from ..ir.targets import Capabilities
from .kernels import Kernels
from .patterns import deferrable, updated_in_place
from .pool import Pool
from .refusal import Missing, Refusal
from .view import View

FOREVER = 1 << 60


@dataclass(slots=True)
class Frame:
    """The nodes of a graph, or of a decomposition, while they are planned."""

    nodes: Sequence[Node]
    last: dict[int, int]  # tensor -> the last node that reads it
    views: dict[int, View] = field(default_factory=dict)
    deferred: dict[int, Node] = field(default_factory=dict)  # by each result
    index: int = 0


class Lowering:
    """What rules see: views of operands, storages to be made, launches to be added."""

    def __init__(self, pool: Pool, kernels: Kernels, capabilities: Capabilities) -> None:
        self.pool, self.kernels, self.capabilities = pool, kernels, capabilities
        self.launches: list[Launch] = []
        self.refusals: list[Refusal] = []
        self._frames: list[Frame] = []
        self._updates: set[int] = set()
        self._updating = False
        self._what = ""

    # what rules use

    def view(self, tensor: Tensor) -> View:
        """Where a tensor lies; plans it, if it was deferred."""
        frame = self._frames[-1]
        if tensor.id in frame.deferred:
            node = frame.deferred[tensor.id]
            self.claim(node)
            before = self._updating, self._what  # of the node that asks
            try:
                self._bind(node)
            finally:
                self._updating, self._what = before
        return frame.views[tensor.id]

    def deferred(self, tensor: Tensor, op: str) -> Node | None:
        """The node of an op that makes a tensor and that is not planned yet."""
        node = self._frames[-1].deferred.get(tensor.id)
        return node if node is not None and node.op == op else None

    def claim(self, node: Node) -> None:
        """A deferred node is taken by another one."""
        for result in node.results:
            self._frames[-1].deferred.pop(result.id, None)

    def waiting(self, op: str) -> Iterator[Node]:
        """The deferred nodes of an op."""
        nodes = self._frames[-1].deferred.values()
        return iter([node for node in nodes if node.op == op])

    def bind(self, tensor: Tensor, view: View) -> None:
        """Say where a claimed node's result lies."""
        self._frames[-1].views[tensor.id] = view

    def make(self, type_: TensorType) -> View:
        """Memory for a tensor within a step, or for good where the load makes it."""
        return self.pool.add(Role.CONSTANT if self.pool.loading else Role.SCRATCH, type_)

    def launch(self, kernel: str, specialization: str, *args: View | Scalar) -> None:
        """Add a launch. Raises Missing without that kernel."""
        missing = self.kernels.lacking(kernel, specialization)
        if missing is not None:
            raise Missing(missing)
        self._fit(kernel, specialization, args)
        spans = tuple(a.span if isinstance(a, View) else a for a in args)
        launches = self.pool.load if self.pool.loading else self.launches
        launches.append(Launch(kernel, specialization, spans, self._what))

    def _fit(self, kernel: str, specialization: str, args: tuple[View | Scalar, ...]) -> None:
        """A rule gives a kernel what it takes; else the rule is wrong."""
        wanted = self.kernels.parameters(kernel, specialization)
        given = [str(a.dtype) if isinstance(a, View) else None for a in args]
        fits = len(wanted) == len(given) and all(
            have in (None, want) for have, want in zip(given, wanted, strict=True)
        )
        if not fits:
            raise AssertionError(
                f"{self._what}: kernel {kernel} {specialization} takes {', '.join(wanted)},"
                f" and is given {', '.join(map(str, given))}"
            )

    def has(self, kernel: str, specialization: str) -> bool:
        return self.kernels.lacking(kernel, specialization) is None

    def once(
        self, key: object, operands: Sequence[View], make: Callable[[], tuple[View, ...]]
    ) -> tuple[View, ...]:
        """What `make` gives; by the load, and once for equal keys, if no operand ever changes."""
        if not all(map(self.pool.fixed, operands)):
            return make()
        whole = key, tuple(operands)
        if whole not in self.pool.made:
            with self.pool.of_load():
                self.pool.made[whole] = make()
        return self.pool.made[whole]

    def owned(self, view: View, node: Node | None = None) -> bool:
        """Whether what a node reads there may be overwritten by the node: the one that is planned,
        or one that it plans with itself."""
        role = self.pool.storages[view.storage].role
        if role is Role.STATE:
            outer = len(self._frames) == 1
            may = self._updates_state(node) if node is not None and outer else self._updating
        else:
            may = role is Role.SCRATCH
        return may and not any(
            frame.last.get(id_, -1) > frame.index and other.storage == view.storage
            for frame in self._frames
            for id_, other in frame.views.items()
        )

    def aligned(self, view: View) -> bool:
        """Whether a kernel may be given the view as it is."""
        return view.start * view.dtype.bytes % max(self.capabilities.offset_alignment, 16) == 0

    # the walk

    def graph(self, graph: Graph) -> None:
        """Plan all nodes; afterwards `view` tells where outputs lie."""
        frame = Frame(graph.nodes, _last_uses(graph.nodes))
        for output in graph.outputs:
            frame.last[output.tensor.id] = FOREVER
        for commit in graph.commits:
            frame.last[commit.value.id] = FOREVER
            if not commit.donates:
                frame.last[commit.state.id] = FOREVER
        for source in graph.sources:
            if source.data is None or source.origin is Origin.CONSTANT:
                frame.views[source.tensor.id] = self.pool.source(source)
        self._updates = updated_in_place(graph)
        self._frames.append(frame)
        for result in self._walk(frame):
            self._refuse(*result)

    def _walk(self, frame: Frame) -> Iterator[tuple[Node, Missing]]:
        """Plan the nodes of a frame; those that cannot be are given, and their results exist."""
        waits = deferrable(frame.nodes, frame.last)
        for n, node in enumerate(frame.nodes):
            frame.index = n
            if n in waits:
                frame.deferred.update((result.id, node) for result in node.results)
                for t in node.operands:  # read as late as that
                    frame.last[t.id] = max(frame.last[t.id], waits[n])
                continue
            try:
                self._bind(node)
            except Missing as missing:
                yield node, missing
                for result in node.results:
                    frame.views[result.id] = self.make(result.type)

    def _bind(self, node: Node) -> None:
        for result, view in zip(node.results, self._planned(node), strict=True):
            assert view.type == result.type, f"{node.op}: {view.type} is not {result.type}"
            self._frames[-1].views[result.id] = view

    def _planned(self, node: Node) -> tuple[View, ...]:
        outermost = len(self._frames) == 1
        if outermost:
            self._what = _name(node)
            self._updating = self._updates_state(node)
        ready = [t.id in self._frames[-1].views for t in node.operands]
        if not all(ready) or OPS[node.op].updates:
            return self._by_rule(node)
        operands = [self.view(t) for t in node.operands]
        key = node.op, node.attrs
        return self.once(key, operands, lambda: self._by_rule(node))

    def _updates_state(self, node: Node) -> bool:
        return any(result.id in self._updates for result in node.results)

    def _by_rule(self, node: Node) -> tuple[View, ...]:
        from .rules import RULES

        reasons: list[str] = []
        for rule in RULES.get(node.op, ()):
            try:
                with self._undone():
                    return rule(self, node)
            except Missing as missing:
                reasons.append(str(missing))
        if OPS[node.op].composite:
            try:
                with self._undone():
                    return self._decomposed(node)
            except Missing as missing:
                reasons.append(f"{missing}, for its decomposition")
        raise Missing(" or ".join(dict.fromkeys(reasons)) or f"a rule for {node.op}")

    def _decomposed(self, node: Node) -> tuple[View, ...]:
        operands = [self.view(t) for t in node.operands]
        body = decomposed(node.op, tuple(v.type for v in operands), node.attrs)
        frame = Frame(body.nodes, _last_uses(body.nodes))
        given = iter(operands)
        for source in body.sources:
            literal = source.data is not None
            frame.views[source.tensor.id] = self.pool.source(source) if literal else next(given)
        for output in body.outputs:
            frame.last[output.tensor.id] = FOREVER
        self._frames.append(frame)
        try:
            for _, missing in self._walk(frame):
                raise missing
            return tuple(self.view(output.tensor) for output in body.outputs)
        finally:
            self._frames.pop()

    @contextmanager
    def _undone(self) -> Iterator[None]:
        """Launches that a rule has added go, where it then does not apply."""
        launches, load, made = len(self.launches), len(self.pool.load), dict(self.pool.made)
        frame = self._frames[-1]
        deferred, views = dict(frame.deferred), dict(frame.views)
        try:
            yield
        except Missing:
            del self.launches[launches:], self.pool.load[load:]
            self.pool.made = made
            frame.deferred, frame.views = deferred, views
            raise

    def _refuse(self, node: Node, missing: Missing) -> None:
        dtypes = tuple(str(t.type.dtype) for t in node.operands)
        c = self.capabilities
        target = f"{c.device} ({c.name}, {', '.join(c.targets[:1])})"
        self.refusals.append(Refusal(_name(node), node.op, dtypes, target, str(missing)))


def _name(node: Node) -> str:
    results = ", ".join(map(str, node.results))
    return f"{results} = {node.op}" + (f" at {node.loc}" if node.loc else "")


def _last_uses(nodes: Sequence[Node]) -> dict[int, int]:
    return {t.id: n for n, node in enumerate(nodes) for t in node.operands}
