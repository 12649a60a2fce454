"""Operators that are defined by others: ONNX's own definitions, and functions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from ..tensor import NAMES
from .value import Value

Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]
DOMAINS = {"ai.onnx": ""}
_NUMBERS = {name: number for number, name in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Body:
    """Nodes in place of one, the names that they call its inputs and outputs by, and the opsets
    that they are of."""

    nodes: tuple[onnx.NodeProto, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    versions: dict[str, int]


def versions_of(opsets: Sequence[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Opsets by domain."""
    return {DOMAINS.get(o.domain, o.domain): o.version for o in opsets}


def definition(proto: onnx.NodeProto, version: int, inputs: Sequence[Value | None]) -> Body | None:
    """What ONNX says an operator stands for; None where it says nothing."""
    schema = _schema(proto, version)
    found = b""
    if schema.has_function:
        fits = [n for n in schema.function_opset_versions if n <= version]
        found = schema.get_function_with_opset_version(max(fits)) if fits else b""
    elif schema.has_context_dependent_function:
        fits = [n for n in schema.context_dependent_function_opset_versions if n <= version]
        if fits:
            types = [_type(value) for value in inputs]
            found = schema.get_context_dependent_function_with_opset_version(
                max(fits), proto.SerializeToString(), types
            )
    if not found:
        return None
    defaults = {
        name: row.default_value for name, row in schema.attributes.items() if row.default_value.name
    }
    return body_of(onnx.FunctionProto.FromString(found), proto, defaults)


def is_defined(proto: onnx.NodeProto, version: int) -> bool:
    """Whether ONNX may say what an operator stands for."""
    if not onnx.defs.has(proto.op_type, version, proto.domain):
        return False
    schema = _schema(proto, version)
    return bool(schema.has_function or schema.has_context_dependent_function)


def _schema(proto: onnx.NodeProto, version: int) -> Any:
    """Of Any: the stubs of onnx leave out what is of definitions."""
    return onnx.defs.get_schema(proto.op_type, version, proto.domain)


def _type(value: Value | None) -> bytes:
    if value is None:
        return b""
    made = onnx.helper.make_tensor_type_proto(_NUMBERS[value.dtype], value.shape)
    return bytes(made.SerializeToString())


def body_of(
    function: onnx.FunctionProto,
    proto: onnx.NodeProto,
    defaults: Mapping[str, onnx.AttributeProto],
) -> Body:
    """The nodes of a function, with the attributes of the node that calls it."""
    given = dict(defaults) | {a.name: a for a in function.attribute_proto}
    given |= {a.name: a for a in proto.attribute}
    nodes = tuple(_bound(node, given) for node in function.node)
    names = tuple(function.input), tuple(function.output)
    return Body(nodes, *names, versions_of(function.opset_import))


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function: attributes that stand for the function's are those, or left out."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for a in node.attribute:
        if not a.ref_attr_name:
            made.attribute.append(a)
        elif a.ref_attr_name in given:
            made.attribute.append(given[a.ref_attr_name])
            made.attribute[-1].name = a.name
    return made
