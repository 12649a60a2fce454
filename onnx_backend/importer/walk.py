"""The nodes of a model in their order: each becomes ops of a graph, a constant, or a refusal.

A node whose inputs are all known is imported into a graph of its own and evaluated by the oracle of
graphs, within a budget: shapes and what is computed from them are constants of the result. Nodes
behind a refused one are looked at by their operators alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from ...ir.graph import GraphBuilder, GraphTypeError
from ...ir.graph.array import Array
from ...ir.graph.oracle import GraphFault, WorkBudgetError, evaluate, work
from ..folding import LARGEST
from ..node import attributes_of
from ..refusal import InvalidNode, Missing
from ..schema import check_attributes, check_types
from .definitions import DOMAINS, Body, Functions, body_of, definition, is_defined
from .node import Node
from .refusal import ImportRefusal, Lacking, Reason
from .registry import Handler, Made, find
from .value import Site, Value, of_array, of_known, restored

MOST_NODES = 1 << 18  # functions written out
MOST_DEPTH = 16  # functions within functions
BUDGET = 1 << 18  # operations of a node that is evaluated here
ALL_BUDGET = 1 << 24  # of all of them
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
Scope = dict[str, Value | None]  # None: what a refused node would have given


@dataclass(slots=True)
class Walk:
    """site: where the ops go. functions: those of the model. refusals: each once, in their
    order."""

    site: Site
    functions: Functions
    refusals: dict[ImportRefusal, None] = field(default_factory=dict)
    nodes: int = 0
    budget: int = ALL_BUDGET

    def run(
        self,
        nodes: Sequence[onnx.NodeProto],
        scope: Scope,
        versions: Mapping[str, int],
        within: tuple[onnx.NodeProto, ...] = (),
    ) -> None:
        """Enter what the nodes give into the scope. within: the nodes whose functions these are
        of."""
        for proto in nodes:
            self.nodes += 1
            made: tuple[Value | None, ...] = ()
            try:
                made = self._step(proto, scope, versions, within)
            except Lacking as lacking:
                self._refuse(proto, within, lacking.reason, lacking.what)
            except Missing as missing:
                self._refuse(proto, within, Reason.TYPE, missing.what)
            except GraphTypeError as error:
                self._refuse(proto, within, Reason.GRAPH, error.what)
            except (ValueError, IndexError, ZeroDivisionError, OverflowError, InvalidNode) as error:
                self._refuse(proto, within, Reason.MODEL, str(error))
            except (onnx.defs.SchemaError, GraphFault) as error:
                self._refuse(proto, within, Reason.MODEL, str(error))
            found = dict(zip(proto.output, made, strict=False))
            scope |= {name: found.get(name) for name in proto.output if name}

    def _refuse(
        self,
        proto: onnx.NodeProto,
        within: tuple[onnx.NodeProto, ...],
        reason: Reason,
        missing: str,
    ) -> None:
        outer = within[0] if within else proto
        inside = f" (within it: {proto.op_type})" if within else ""
        name = outer.name or next(iter(outer.output), "")
        self.refusals[ImportRefusal(name, outer.op_type, reason, missing + inside)] = None

    def _step(
        self,
        proto: onnx.NodeProto,
        scope: Scope,
        versions: Mapping[str, int],
        within: tuple[onnx.NodeProto, ...],
    ) -> tuple[Value | None, ...]:
        """The outputs of one node; nothing where its inputs were refused."""
        if self.nodes > MOST_NODES:
            raise Lacking(Reason.MODEL, f"at most {MOST_NODES} nodes with all functions in place")
        domain = DOMAINS.get(proto.domain, proto.domain)
        proto = _of_domain(proto, domain)
        function = self.functions.get((domain, proto.op_type, proto.overload))
        version = versions.get(domain)
        if version is None:
            raise Lacking(Reason.MODEL, f"an opset_import of {domain or 'ai.onnx'}")
        handler = find(domain, proto.op_type, version)
        if function is None and handler is None and not is_defined(proto, version):
            raise Lacking(Reason.OPERATOR, f"operator {proto.op_type}")
        if any(a.type in _GRAPHS for a in proto.attribute):
            raise Lacking(Reason.OPERATOR, f"operator {proto.op_type} with graphs inside")
        unknown = [name for name in proto.input if name and name not in scope]
        if unknown:
            raise Lacking(Reason.MODEL, f"a tensor {unknown[0]!r}")
        if any(name and scope[name] is None for name in proto.input):
            return ()
        inputs = tuple(scope[name] if name else None for name in proto.input)
        if function is not None:
            return self._body(proto, body_of(function, proto, {}), inputs, within)
        check_types(proto, version, inputs)
        check_attributes(proto, version)
        if handler is not None:
            return self._made(proto, version, inputs, handler)
        body = definition(proto, version, inputs)
        if body is None:
            raise Lacking(Reason.OPERATOR, f"operator {proto.op_type}")
        return self._body(proto, body, inputs, within, dict(versions))

    def _body(
        self,
        proto: onnx.NodeProto,
        body: Body,
        inputs: tuple[Value | None, ...],
        within: tuple[onnx.NodeProto, ...],
        versions: Mapping[str, int] | None = None,
    ) -> tuple[Value | None, ...]:
        """A function in place of a node."""
        if len(within) >= MOST_DEPTH:
            raise Lacking(Reason.MODEL, f"functions within at most {MOST_DEPTH} others")
        scope: Scope = {}
        left_out = set()
        for n, name in enumerate(body.inputs):
            value = inputs[n] if n < len(inputs) else None
            if value is None:
                left_out.add(name)
            else:
                scope[name] = value
        nodes = [_without(node, left_out) for node in body.nodes]
        self.run(nodes, scope, dict(versions or {}) | body.versions, (*within, proto))
        wanted = [name for name, out in zip(body.outputs, proto.output, strict=False) if out]
        for name in wanted:
            if name not in scope:
                raise Lacking(Reason.MODEL, f"a node for output {name!r} of the function")
        return tuple(scope.get(name) for name in body.outputs)

    def _made(
        self,
        proto: onnx.NodeProto,
        version: int,
        inputs: tuple[Value | None, ...],
        handler: Handler,
    ) -> tuple[Value, ...]:
        def at(site: Site) -> tuple[Made, ...]:
            wanted = tuple(bool(name) for name in proto.output)
            attributes = attributes_of(proto, version)
            node = Node(proto.name, proto.op_type, version, attributes, inputs, wanted, site)
            made = handler(node)
            outputs = made if isinstance(made, tuple) else (made,)
            if any(wanted[len(outputs) :]):
                raise node.lacks(f"output {len(outputs)} of {proto.op_type}")
            return outputs

        if all(value is None or value.known is not None for value in inputs):
            scratch = Site(GraphBuilder("constant", places=False))
            known = self._evaluated(scratch, at(scratch))
            if known is not None:
                return tuple(of_known(array) for array in known)
        return tuple(
            of_array(made) if isinstance(made, Array) else self._constant(proto, n, made)
            for n, made in enumerate(at(self.site))
        )

    def _evaluated(self, site: Site, made: tuple[Made, ...]) -> list[np.ndarray] | None:
        """The elements of a node's outputs; None where they are many, or much work."""
        arrays = [value for value in made if isinstance(value, Array)]
        if sum(value.size for value in made) > LARGEST:
            return None
        for n, array in enumerate(arrays):
            site.builder.output(str(n), array)
        graph = site.builder.build()
        try:
            found = evaluate(graph, site.weights, budget=min(BUDGET, self.budget)).outputs
        except WorkBudgetError:
            return None
        self.budget -= work(graph)
        values = iter(restored(found[str(n)], array.type) for n, array in enumerate(arrays))
        return [next(values) if isinstance(value, Array) else value for value in made]

    def _constant(self, proto: onnx.NodeProto, place: int, array: np.ndarray) -> Value:
        """What is known; a weight by the name of the output where it is large."""
        if array.size <= LARGEST:
            return of_known(array)
        name, count = proto.output[place], 0
        while name in self.site.names:
            name, count = f"{proto.output[place]}.{count}", count + 1
        self.site.names.add(name)
        value = Value(of_known(array).type, weight=name, data=array)
        return Value(value.type, array=self.site.array(value))


def _of_domain(proto: onnx.NodeProto, domain: str) -> onnx.NodeProto:
    """A node by its domain's own name."""
    if proto.domain == domain:
        return proto
    made = onnx.NodeProto()
    made.CopyFrom(proto)
    made.domain = domain
    return made


def _without(node: onnx.NodeProto, left_out: set[str]) -> onnx.NodeProto:
    """A node of a function without the inputs that its caller left out."""
    if not left_out & set(node.input):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[:] = ["" if name in left_out else name for name in node.input]
    return made
