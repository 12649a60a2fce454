"""Constants, vectors and bit patterns as numpy arrays.

In registers f16 is float16, and bf16 and the 8-bit floats are float32 that holds such a value; in
memory they are the unsigned integers of their bits.
"""

from __future__ import annotations

import numpy as np

from .. import float8
from ..core import Op
from ..dtypes import DType, Type, VectorType, element_of, lanes_of
from ..ops.meaning import round_bf16
from .frame import Array, Frame


def register_type(dtype: DType) -> np.dtype:
    """The numpy type of a value in a register."""
    return np.dtype(np.float32) if dtype.is_float and not dtype.has_numpy else dtype.storage


def decode(stored: Array, dtype: DType) -> Array:
    """From the memory form to the register form."""
    if dtype.name == "bf16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored if dtype.computes else float8.decode(stored, dtype.name)


def encode(value: Array, dtype: DType) -> Array:
    """From the register form to the memory form."""
    if dtype.name == "bf16":
        words = np.ascontiguousarray(value).view(np.uint32)
        return (words >> np.uint32(16)).astype(np.uint16)
    return value if dtype.computes else float8.encode(value, dtype.name)


def from_bits(bits: int, dtype: DType) -> Array:
    """An array [1] of the value with that bit pattern."""
    if dtype.is_bool:
        return np.array([bool(bits)])
    word = np.array([bits & ((1 << dtype.bits) - 1)], f"u{dtype.bytes}")
    return decode(word.view(dtype.storage), dtype)


def reinterpret(value: Array, source: Type, target: Type) -> Array:
    """The same bits as another type of the same total width; lane 0 holds the lowest bits."""
    stored = np.ascontiguousarray(encode(value, element_of(source)))
    cells = stored.reshape(len(stored), lanes_of(source)).view(element_of(target).storage)
    if not isinstance(target, VectorType):
        cells = cells[:, 0]
    return decode(cells, element_of(target))


def int_attr(op: Op, name: str) -> int:
    """An attribute that is an integer."""
    value = op.attr(name)
    assert isinstance(value, int)
    return value


def _const(frame: Frame, op: Op) -> Array:
    return from_bits(int_attr(op, "bits"), element_of(op.result.type))


def _vector(frame: Frame, op: Op) -> Array:
    parts = np.broadcast_arrays(*(frame.get(v.id) for v in op.operands))
    return np.stack(parts, axis=1)


def _splat(frame: Frame, op: Op) -> Array:
    return np.repeat(frame.get(op.operands[0].id)[:, None], lanes_of(op.result.type), axis=1)


def _extract(frame: Frame, op: Op) -> Array:
    return frame.get(op.operands[0].id)[:, int_attr(op, "lane")]


def _insert(frame: Frame, op: Op) -> Array:
    vector, part = (frame.get(v.id) for v in op.operands)
    size = max(len(vector), len(part))
    result = np.array(np.broadcast_to(vector, (size, vector.shape[1])))
    result[:, int_attr(op, "lane")] = part
    return result


def _shuffle(frame: Frame, op: Op) -> Array:
    a, b = (frame.get(v.id) for v in op.operands)
    size = max(len(a), len(b))
    both = [np.broadcast_to(v, (size, v.shape[1])) for v in (a, b)]
    lanes = op.attr("lanes")
    assert isinstance(lanes, tuple)
    return np.concatenate(both, axis=1)[:, np.array(lanes, np.intp)]


def _bitcast(frame: Frame, op: Op) -> Array:
    (source,) = op.operands
    return reinterpret(frame.get(source.id), source.type, op.result.type)


SHAPES = {
    "const": _const,
    "vector": _vector,
    "splat": _splat,
    "extract": _extract,
    "insert": _insert,
    "shuffle": _shuffle,
    "bitcast": _bitcast,
}


def settle(value: Array, dtype: DType) -> Array:
    """The result of an elementwise op as a register value of `dtype` (bf16 is rounded here)."""
    return round_bf16(value) if dtype.name == "bf16" else value
