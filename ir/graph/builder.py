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

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from ..dtypes import DType
from ..interp.values import encode
from ..ops.meaning import convert
from .array import Array
from .core import Attr, Commit, Graph, Loc, Node, Origin, Output, Source, Tensor
from .table import complete, infer
from .types import GraphTypeError, TensorType, find_dtype

_OWN = Path(__file__).resolve().parent
_ROOT = _OWN.parents[1]


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
        """A constant that is written into the graph, of a number or an array of them, which are
        converted as `cast` does. Equal ones are one."""
        kind = find_dtype(dtype)
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise GraphTypeError(f"a literal is made of numbers, not of {given.dtype}")
        if kind.is_int and given.dtype.kind == "f" and not (given == np.trunc(given)).all():
            raise GraphTypeError(f"{value!r} is no {kind}")
        if kind.is_int and not (given == given.astype(kind.storage)).all():
            raise GraphTypeError(f"{value!r} does not fit into {kind}")
        stored = np.ascontiguousarray(encode(convert(np.atleast_1d(given), out=kind), kind))
        type_ = TensorType(kind, given.shape)
        key = type_, stored.astype(stored.dtype.newbyteorder("<")).tobytes()
        if key not in self._literals:
            name = f"literal{len(self._literals)}"
            self._literals[key] = self._add(Origin.CONSTANT, name, type_, key[1])
        return self._literals[key]

    def op(self, name: str, *operands: Array, **attrs: Attr) -> Array:
        """A node of one result. Raises GraphTypeError as `node`."""
        (result,) = self.node(name, *operands, **attrs)
        return result

    def node(self, name: str, *operands: Array, **attrs: Attr) -> tuple[Array, ...]:
        """A node: its results. An axis below 0 counts from the end. Raises GraphTypeError with the
        line of the caller."""
        loc = _caller() if self._places else None
        try:
            for operand in operands:
                self._own(operand)
            axis = attrs.get("axis")
            if isinstance(axis, int) and axis < 0 and operands:
                attrs["axis"] = axis + operands[0].rank
            filled = complete(name, attrs)
            types = infer(name, [operand.type for operand in operands], dict(filled))
        except GraphTypeError as error:
            raise GraphTypeError(f"{loc}: {error}" if loc else str(error)) from error
        results = tuple(self._tensor(t) for t in types)
        tensors = tuple(operand.tensor for operand in operands)
        self._nodes.append(Node(name, tensors, filled, results, loc))
        return tuple(Array(self, tensor) for tensor in results)

    def output(self, name: str, value: Array) -> None:
        """What a step gives."""
        self._own(value)
        if name in self._outputs:
            raise GraphTypeError(f"there are two outputs {name!r}")
        self._outputs[name] = Output(name, value.tensor)

    def commit(self, state: Array, value: Array, *, donates: bool = False) -> None:
        """What a state is from the next step on; donates: made in the memory of the old one."""
        self._own(state)
        self._own(value)
        if state.tensor.id in self._commits:
            raise GraphTypeError(f"{state.tensor} is committed twice")
        self._commits[state.tensor.id] = Commit(state.tensor, value.tensor, donates)

    def build(self) -> Graph:
        """The graph, verified."""
        from .verify import verify

        graph = Graph(
            self.name,
            tuple(self._sources),
            tuple(self._nodes),
            tuple(self._outputs.values()),
            tuple(self._commits.values()),
        )
        verify(graph)
        return graph

    def _source(
        self, origin: Origin, name: str, dtype: DType | str, shape: tuple[int, ...]
    ) -> Array:
        return self._add(origin, name, TensorType(find_dtype(dtype), tuple(shape)), None)

    def _add(self, origin: Origin, name: str, t: TensorType, data: bytes | None) -> Array:
        if name in self._names:
            raise GraphTypeError(f"{name!r} is the name of another source already")
        self._names.add(name)
        tensor = self._tensor(t)
        self._sources.append(Source(origin, name, tensor, data))
        return Array(self, tensor)

    def _tensor(self, t: TensorType) -> Tensor:
        self._next += 1
        return Tensor(self._next - 1, t)

    def _own(self, value: Array) -> None:
        if not isinstance(value, Array):
            raise GraphTypeError(
                f"an operand is an array of this graph, not {type(value).__name__}"
            )
        if value.builder is not self:
            raise GraphTypeError(f"{value.type} belongs to graph {value.builder.name!r}")


def _caller() -> Loc | None:
    """The line outside this package that is at work."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = _place(frame.f_code.co_filename)
        if file is not None:
            return Loc(file, frame.f_lineno)
        frame = frame.f_back
    return None


@cache
def _place(file: str) -> str | None:
    """None for a file of this package; relative to the project where it lies there: a graph is the
    same in every checkout."""
    path = Path(file).resolve()
    if _OWN in path.parents:
        return None
    return path.relative_to(_ROOT).as_posix() if _ROOT in path.parents else path.name


def operands_of(types: Mapping[str, TensorType]) -> tuple[GraphBuilder, list[Array]]:
    """A builder with inputs of these types, to ask what a function of arrays makes of them."""
    builder = GraphBuilder("operands", places=False)
    return builder, [builder.input(name, t.dtype, t.shape) for name, t in types.items()]
