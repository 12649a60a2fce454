"""Building a graph: sources, nodes by name, outputs and commits.

    g = GraphBuilder("mlp")
    x = g.input("x", "f32", (4, 64))
    w = g.constant("ffn_up.weight", "f32", (64, 128))
    g.output("y", maximum(x @ w, 0.0))
    graph = g.build()

What the pieces of a graph look like to an author is `Array` (`ir.graph.array`): operators, slices
and methods as numpy has them, with numpy's broadcasting. Element types never change by themselves;
a Python number takes the type of the array beside it. Errors are GraphTypeError, and name the line.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..dtypes import DType
from ..interp.values import encode
from ..ops.meaning import convert
from .array import Array, mistake
from .core import Attr, Commit, Graph, Node, Origin, Output, Source, Tensor
from .places import caller
from .table import complete, infer
from .types import GraphTypeError, TensorType, find_dtype, shape_of, shown


class GraphBuilder:
    """A graph that grows. One name is used once among its sources, and once among its outputs."""

    def __init__(self, name: str, *, places: bool = True) -> None:
        """places: whether nodes and errors name the line that asked for them."""
        self.name, self._places = name, places
        self._sources: list[Source] = []
        self._nodes: list[Node] = []
        self._outputs: dict[str, Output] = {}
        self._commits: dict[int, Commit] = {}
        self._names: set[str] = set()
        self._literals: dict[tuple[TensorType, bytes], Array] = {}
        self._next = 0

    def input(self, name: str, dtype: DType | str, shape: tuple[int, ...] = ()) -> Array:
        """A tensor that the caller gives at each step."""
        return self._source(Origin.INPUT, name, dtype, shape)

    def slot(self, name: str, dtype: DType | str, shape: tuple[int, ...] = ()) -> Array:
        """A few numbers that are rewritten in place between steps."""
        return self._source(Origin.SLOT, name, dtype, shape)

    def constant(self, name: str, dtype: DType | str, shape: tuple[int, ...] = ()) -> Array:
        """A weight, which a checkpoint brings by this name."""
        return self._source(Origin.CONSTANT, name, dtype, shape)

    def state(self, name: str, dtype: DType | str, shape: tuple[int, ...] = ()) -> Array:
        """A tensor that stays from step to step, zeros at first."""
        return self._source(Origin.STATE, name, dtype, shape)

    def literal(self, value: Any, dtype: DType | str) -> Array:
        """A constant that is written into the graph, of a number or an array of numbers, which the
        element type holds: floats are rounded to it, but not to infinity. Equal ones are one."""
        kind = find_dtype(dtype)
        given = _numbers(value, kind)
        with np.errstate(all="ignore"):
            held = convert(given.reshape(-1), out=kind)
        stored = np.ascontiguousarray(encode(held, kind))
        type_ = TensorType(kind, given.shape)
        key = type_, stored.astype(stored.dtype.newbyteorder("<")).tobytes()
        if key not in self._literals:
            self._literals[key] = self._add(Origin.CONSTANT, "", type_, key[1])
        return self._literals[key]

    def op(self, name: str, *operands: Array, **attrs: Attr) -> Array:
        """A node of one result. Raises GraphTypeError as `node`."""
        (result,) = self.node(name, *operands, **attrs)
        return result

    def node(self, name: str, *operands: Array, **attrs: Attr) -> tuple[Array, ...]:
        """A node: its results. An axis below 0 counts from the end. Raises GraphTypeError with the
        line of the caller."""
        loc = caller() if self._places else None
        try:
            for operand in operands:
                self._own(operand)
            axis = attrs.get("axis")
            if isinstance(axis, int) and axis < 0 and operands:
                attrs["axis"] = axis + operands[0].rank
            filled = complete(name, attrs)
            types = infer(name, [operand.type for operand in operands], dict(filled))
        except GraphTypeError as error:
            raise GraphTypeError(error.what, error.loc or loc) from error
        results = tuple(self._tensor(t) for t in types)
        tensors = tuple(operand.tensor for operand in operands)
        self._nodes.append(Node(name, tensors, filled, results, loc))
        return tuple(Array(self, tensor) for tensor in results)

    def output(self, name: str, value: Array) -> None:
        """What a step gives."""
        self._own(value)
        _name(name, self._outputs)
        self._outputs[name] = Output(name, value.tensor)

    def commit(self, state: Array, value: Array, *, donates: bool = False) -> None:
        """What a state is from the next step on; donates: made in the memory of the old one."""
        self._own(state)
        self._own(value)
        if state.tensor.id in self._commits:
            raise mistake(f"{state.tensor} is committed twice")
        self._commits[state.tensor.id] = Commit(state.tensor, value.tensor, donates)

    def build(self) -> Graph:
        """The graph, verified."""
        from .verify import verify

        graph = Graph(
            self.name,
            tuple(self._named()),
            tuple(self._nodes),
            tuple(self._outputs.values()),
            tuple(self._commits.values()),
        )
        verify(graph)
        return graph

    def _named(self) -> Iterator[Source]:
        """The sources, literals by names that no other has."""
        count = 0
        for source in self._sources:
            if source.name:
                yield source
                continue
            while f"literal{count}" in self._names:
                count += 1
            yield replace(source, name=f"literal{count}")
            count += 1

    def _source(
        self, origin: Origin, name: str, dtype: DType | str, shape: tuple[int, ...]
    ) -> Array:
        _name(name, self._names)
        self._names.add(name)
        try:
            t = TensorType(find_dtype(dtype), shape_of(shape))
        except GraphTypeError as error:
            raise mistake(f"{origin.value} {name!r}: {error.what}") from error
        return self._add(origin, name, t, None)

    def _add(self, origin: Origin, name: str, t: TensorType, data: bytes | None) -> Array:
        tensor = self._tensor(t)
        self._sources.append(Source(origin, name, tensor, data))
        return Array(self, tensor)

    def _tensor(self, t: TensorType) -> Tensor:
        self._next += 1
        return Tensor(self._next - 1, t)

    def _own(self, value: Array) -> None:
        if not isinstance(value, Array):
            raise mistake(f"an operand is an array of this graph, not {type(value).__name__}")
        if value.builder is not self:
            raise mistake(f"{value!r} belongs to another builder, of graph {value.builder.name!r}")


def _name(name: str, taken: Container[str]) -> None:
    if not isinstance(name, str) or not name:
        raise mistake(f"a name is a string that is not empty, not {shown(name)}")
    if name in taken:
        raise mistake(f"{name!r} is the name of another one already")


def _numbers(value: Any, kind: DType) -> np.ndarray:
    """Numbers that an element type holds, as numpy has them."""
    try:
        given = np.asarray(float(value) if isinstance(value, int) and kind.is_float else value)
    except (ValueError, OverflowError) as error:
        raise mistake(f"a literal is made of numbers, not of {shown(value)}") from error
    if given.dtype.kind not in "biuf":
        raise mistake(f"{shown(value)} is no {kind}, nor an array of them")
    with np.errstate(all="ignore"):
        if kind.is_bool:
            held = (given == 0) | (given == 1)
        elif kind.is_int:
            held = (given == np.trunc(given)) & (given >= kind.min) & (given <= kind.max)
        else:
            wide = given.astype(np.float64)
            held = ~np.isfinite(wide) | np.isfinite(convert(wide.reshape(-1), out=kind)).reshape(
                wide.shape
            )
    if not held.all():
        raise mistake(f"{shown(value)} does not fit into {kind}")
    return given


def operands_of(types: Mapping[str, TensorType]) -> tuple[GraphBuilder, list[Array]]:
    """A builder with inputs of these types, to ask what a function of arrays makes of them."""
    builder = GraphBuilder("operands", places=False)
    return builder, [builder.input(name, t.dtype, t.shape) for name, t in types.items()]
