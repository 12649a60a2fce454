"""A whole model: what it is read from, whether it is one, its inputs, weights and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from ...ir.graph import Graph, GraphBuilder, GraphTypeError, TensorType
from ...ir.graph.types import find_dtype
from ..refusal import Missing
from ..tensor import name_of_type
from .data import elements
from .definitions import DOMAINS, Functions, versions_of
from .refusal import ImportRefusal, Lacking, Reason
from .value import Site, Value, of_array, of_weight
from .walk import Scope, Walk

MOST_BYTES = (1 << 31) - 1  # of a protobuf


@dataclass(frozen=True, slots=True)
class Imported:
    """A graph, and the weights that it names: arrays as memory holds their types (`uint16` for
    bf16), or maps of files."""

    graph: Graph
    weights: dict[str, np.ndarray]


def import_model(
    model: onnx.ModelProto | bytes | str | Path,
    *,
    dims: Mapping[str, int] | None = None,
    folder: str | Path | None = None,
) -> Imported | list[ImportRefusal]:
    """The graph of a model, with inputs and outputs by their names, or everything that is missing.

    model: itself, its bytes, or a path. dims: the sizes that it leaves open, by their names
    ("batch"), or where they have none by input and place ("x.0"). folder: where files of weights
    lie, beside the model unless it is stated. What a model says is no reason for an exception.
    """
    if folder is None and isinstance(model, str | Path):
        folder = Path(model).parent
    try:
        proto = _read(model)
        _check(proto)
        return _imported(proto, dict(dims or {}), None if folder is None else Path(folder))
    except Lacking as lacking:
        return [ImportRefusal("model", "", lacking.reason, lacking.what)]
    except UnicodeDecodeError as error:  # protobuf finds out when a text is read
        return [ImportRefusal("model", "", Reason.MODEL, f"texts in UTF-8: {error}")]


def _imported(
    proto: onnx.ModelProto, dims: dict[str, int], folder: Path | None
) -> Imported | list[ImportRefusal]:
    refusals: dict[ImportRefusal, None] = {}
    site = Site(GraphBuilder(proto.graph.name or "model", places=False))
    scope = _Sources(proto.graph, dims, site, refusals).scope(folder)
    walk = Walk(site, _functions(proto), refusals)
    walk.run(proto.graph.node, scope, versions_of(proto.opset_import))
    for output in proto.graph.output:
        _output(output, scope, site, refusals)
    if refusals:
        return list(refusals)
    return Imported(site.builder.build(), site.weights)


def _read(model: onnx.ModelProto | bytes | str | Path) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    if not isinstance(model, bytes):
        path = Path(model)
        try:
            if not path.is_file() or path.stat().st_size > MOST_BYTES:
                expected = f"a file of at most {MOST_BYTES} bytes, which {path} is not"
                raise Lacking(Reason.MODEL, expected)
            model = path.read_bytes()
        except (OSError, ValueError) as error:
            raise Lacking(Reason.MODEL, f"a file that can be read: {error}") from error
    try:
        return onnx.ModelProto.FromString(model)
    except DecodeError as error:
        raise Lacking(Reason.MODEL, f"a protobuf of ONNX: {error}") from error


def _functions(proto: onnx.ModelProto) -> Functions:
    return {(DOMAINS.get(f.domain, f.domain), f.name, f.overload): f for f in proto.functions}


def _check(proto: onnx.ModelProto) -> None:
    """Lacking for what ONNX's checker finds. It sees initializers as inputs, whose elements are
    checked where they are read: they may be more than it takes. It asks for shapes of outputs, too,
    which follow here."""
    newest = onnx.defs.onnx_opset_version()
    stated = versions_of(proto.opset_import).get("", newest)
    if stated > newest:
        raise Lacking(Reason.MODEL, f"an opset of at most {newest}, not {stated}")
    bare, graph = onnx.ModelProto(), proto.graph
    bare.ir_version = proto.ir_version
    bare.opset_import.extend(proto.opset_import)
    bare.functions.extend(proto.functions)
    bare.graph.name = graph.name
    bare.graph.node.extend(graph.node)
    bare.graph.input.extend(graph.input)
    bare.graph.output.extend(graph.output)
    for value in (*bare.graph.input, *bare.graph.output):
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.shape.SetInParent()
    names = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in names:
            made = onnx.helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            bare.graph.input.append(onnx.helper.make_value_info(tensor.name, made))
    if graph.sparse_initializer:
        raise Lacking(Reason.TYPE, "sparse initializers")
    try:
        onnx.checker.check_model(bare)
    except (onnx.checker.ValidationError, ValueError) as error:
        raise Lacking(Reason.MODEL, f"a model by ONNX's checker: {error}") from error


@dataclass(slots=True)
class _Sources:
    """Inputs and initializers of a graph."""

    graph: onnx.GraphProto
    dims: dict[str, int]
    site: Site
    refusals: dict[ImportRefusal, None]

    def scope(self, folder: Path | None) -> Scope:
        scope: Scope = {}
        self.site.names.update(t.name for t in (*self.graph.initializer, *self.graph.input))
        for tensor in self.graph.initializer:
            if tensor.name in scope:
                self._refuse(f"initializer {tensor.name!r}", Reason.MODEL, "one of this name")
                continue
            scope[tensor.name] = self._weight(tensor, folder)
        unused = set(self.dims)
        for value in self.graph.input:
            if value.name not in scope:
                scope[value.name] = self._input(value, unused)
        for name in sorted(unused):
            self._refuse(f"dims[{name!r}]", Reason.DIMENSION, "an input with such a dimension")
        return scope

    def _refuse(self, where: str, reason: Reason, missing: str) -> None:
        self.refusals[ImportRefusal(where, "", reason, missing)] = None

    def _weight(self, tensor: onnx.TensorProto, folder: Path | None) -> Value | None:
        where = f"initializer {tensor.name!r}"
        try:
            return of_weight(tensor.name, elements(tensor, folder))
        except Lacking as lacking:
            self._refuse(where, lacking.reason, lacking.what)
        except Missing as missing:
            self._refuse(where, Reason.TYPE, missing.what)
        except GraphTypeError as error:
            self._refuse(where, Reason.MODEL, error.what)
        return None

    def _input(self, value: onnx.ValueInfoProto, unused: set[str]) -> Value | None:
        where, kind = f"input {value.name!r}", value.type.WhichOneof("value")
        if kind != "tensor_type" or not value.type.tensor_type.HasField("shape"):
            wanted = "a tensor" if kind != "tensor_type" else "a shape"
            self._refuse(where, Reason.TYPE, f"{wanted}, not {kind or 'nothing'}")
            return None
        sizes = [
            self._size(value.name, place, dim, unused)
            for place, dim in enumerate(value.type.tensor_type.shape.dim)
        ]
        if None in sizes:
            return None
        try:
            dtype = find_dtype(name_of_type(value.type.tensor_type.elem_type))
            shape = tuple(size for size in sizes if size is not None)
            return of_array(self.site.builder.input(value.name, dtype, shape))
        except Missing as missing:
            self._refuse(where, Reason.TYPE, missing.what)
        except GraphTypeError as error:
            self._refuse(where, Reason.MODEL, error.what)
        return None

    def _size(
        self, name: str, place: int, dim: onnx.TensorShapeProto.Dimension, unused: set[str]
    ) -> int | None:
        if dim.HasField("dim_value"):
            return dim.dim_value
        key = dim.dim_param or f"{name}.{place}"
        unused.discard(key)
        size = self.dims.get(key)
        if isinstance(size, int | np.integer) and size >= 0:
            return int(size)
        got = "" if size is None else f", not {size!r}"
        missing = f"a size for it: dims[{key!r}]{got}"
        self._refuse(f"dimension {place} of input {name!r}", Reason.DIMENSION, missing)
        return None


def _output(
    output: onnx.ValueInfoProto,
    scope: Scope,
    site: Site,
    refusals: dict[ImportRefusal, None],
) -> None:
    """Enter an output, whose type is the one that the model states, if it states one."""

    def refuse(reason: Reason, missing: str) -> None:
        refusals[ImportRefusal(f"output {output.name!r}", "", reason, missing)] = None

    value = scope.get(output.name)
    if value is None:
        if output.name not in scope:
            refuse(Reason.MODEL, "a node")
        return
    try:
        stated = output.type.tensor_type
        if stated.elem_type and name_of_type(stated.elem_type) != value.dtype:
            raise Lacking(Reason.MODEL, f"{name_of_type(stated.elem_type)}, not {value.type}")
        sizes = stated.shape.dim if stated.HasField("shape") else None
        if sizes is not None and not _fits(value.type, list(sizes)):
            wanted = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in sizes]
            raise Lacking(Reason.MODEL, f"shape {wanted}, not {value.type}")
        site.builder.output(output.name, site.array(value))
    except Lacking as lacking:
        refuse(lacking.reason, lacking.what)
    except Missing as missing:
        refuse(Reason.TYPE, missing.what)
    except GraphTypeError as error:
        refuse(Reason.MODEL, error.what)


def _fits(t: TensorType, sizes: list[onnx.TensorShapeProto.Dimension]) -> bool:
    return len(sizes) == t.rank and all(
        not d.HasField("dim_value") or d.dim_value == size
        for d, size in zip(sizes, t.shape, strict=True)
    )
