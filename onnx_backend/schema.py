"""Whether the element types of a node's inputs are those that its operator's schema allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import onnx

from .refusal import InvalidNode

_NAMES = {
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2", "i8": "int8", "i16": "int16", "i32": "int32",
    "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "bool": "bool",
}  # fmt: skip


class Typed(Protocol):
    """A tensor, by its element type's name."""

    @property
    def dtype(self) -> str: ...


def check_types(proto: onnx.NodeProto, version: int, inputs: Sequence[Typed | None]) -> None:
    """InvalidNode for an input of a type that the operator does not take, or of another one than an
    input that has to be of the same."""
    schema = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    formal = schema.inputs
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    bound: dict[str, str] = {}
    for position, tensor in enumerate(inputs):
        if tensor is None or not formal:
            continue
        row = formal[min(position, len(formal) - 1)]
        found = f"tensor({_NAMES[tensor.dtype]})"
        wanted = allowed.get(row.type_str, {row.type_str})
        if row.is_homogeneous and row.type_str in bound:
            wanted = {bound[row.type_str]}
        if found not in wanted:
            raise InvalidNode(
                f"{proto.op_type} of such elements",
                where=f"input {position} of node {proto.name or '(unnamed)'}",
                expected=", ".join(sorted(wanted)),
                got=found,
            )
        bound.setdefault(row.type_str, found)


def check_attributes(proto: onnx.NodeProto, version: int) -> None:
    """InvalidNode for an attribute that the operator does not have, that is of another kind or
    missing: ONNX's checker does not see those that a function of a model is given."""
    schema: Any = onnx.defs.get_schema(proto.op_type, version, proto.domain)
    rows = schema.attributes  # the stubs of onnx leave out what its types are
    where = f"node {proto.name or '(unnamed)'} ({proto.op_type})"
    for a in proto.attribute:
        if a.name not in rows:
            known = ", ".join(sorted(rows)) or "none"
            raise InvalidNode("an unknown attribute", where=where, expected=known, got=a.name)
        kind = rows[a.name].type.value
        if a.type != kind:
            wanted = onnx.AttributeProto.AttributeType.Name(kind)
            raise InvalidNode(f"attribute {a.name}", where=where, expected=wanted, got=str(a.type))
    given = {a.name for a in proto.attribute}
    for name, row in rows.items():
        if row.required and name not in given:
            raise InvalidNode("a missing attribute", where=where, expected=name, got="none")
