"""Constants, and vectors made of lanes and taken apart."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Op
from ...ir.dtypes import DType, lanes_of
from .emitter import Emitter
from .opcodes import Op as S


def construct(e: Emitter, op: Op) -> int:
    return e.plain(op, S.COMPOSITE_CONSTRUCT, e.type(op.results[0].type))


def splat(e: Emitter, op: Op) -> int:
    t = op.results[0].type
    (value,) = e.operands(op)
    if op.operands[0].id in e.constants:
        return e.module.splat(e.type(t), lanes_of(t), value)
    return e.ins(S.COMPOSITE_CONSTRUCT, e.type(t), *(value,) * lanes_of(t))


def _lane(op: Op) -> int:
    lane = op.attr("lane")
    assert isinstance(lane, int)
    return lane


def extract(e: Emitter, op: Op) -> int:
    return e.ins(S.COMPOSITE_EXTRACT, e.type(op.results[0].type), *e.operands(op), _lane(op))


def insert(e: Emitter, op: Op) -> int:
    vector, value = e.operands(op)
    return e.ins(S.COMPOSITE_INSERT, e.type(op.results[0].type), value, vector, _lane(op))


def shuffle(e: Emitter, op: Op) -> int:
    lanes = op.attr("lanes")
    assert isinstance(lanes, tuple)
    words = [n for n in lanes if isinstance(n, int)]
    return e.ins(S.VECTOR_SHUFFLE, e.type(op.results[0].type), *e.operands(op), *words)


def const(e: Emitter, op: Op) -> int:
    bits, dtype = op.attrs[0][1], op.results[0].type
    assert isinstance(bits, int)
    assert isinstance(dtype, DType)
    e.constants[op.results[0].id] = bits
    if dtype.is_bool:
        return e.module.boolean(bool(bits))
    if dtype.name == "bf16":
        return e.module.constant(e.type(dtype), bits << 16)
    return e.module.constant(e.type(dtype), bits, dtype.bits)


LOWERINGS: dict[str, Callable[[Emitter, Op], int]] = {
    "const": const,
    "vector": construct,
    "splat": splat,
    "extract": extract,
    "insert": insert,
    "shuffle": shuffle,
}
