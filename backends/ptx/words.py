"""Vectors of words that kernels take apart and put together, as words: one permutation of bytes
for a `shuffle` whose bits are taken, one instruction for a sum, difference or product of two f16,
and no bytes at all between a vector that is loaded and its words. Elsewhere vectors are components
(`llvm.parts`), which LLVM does not always find together again."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.core import Op, Value
from ...ir.dtypes import element_of, f16, lanes_of, u32
from ..llvm.parts import bitcast_parts
from ..llvm.types import Ty
from .lowering import Lowering

_WORD = 32
_PAIR = "<2 x half>"
_SUMS = frozenset(("add", "sub", "mul", "fma"))
_ONE, _MINUS_ONE, _MINUS_ZERO = "0xH3C00", "0xHBC00", "0xH8000"


def _bits(value: Value) -> int:
    return element_of(value.type).bits * lanes_of(value.type)


def _is_word(value: Value) -> bool:
    """Whether a value is one integer of 32 bits."""
    return lanes_of(value.type) == 1 and element_of(value.type).is_int and _bits(value) == _WORD


def takes(x: Lowering, op: Op) -> bool:
    """Whether an op takes the words of a vector that one instruction makes."""
    if op.name != "bitcast":
        return False
    (vector,) = op.operands
    target = element_of(op.result.type)
    if lanes_of(vector.type) == 1 or not target.is_int or target.bits != _WORD:
        return False
    return vector.id in x.wholes or (_is_word(op.result) and _made_at_once(x, vector))


def emit(x: Lowering, op: Op) -> None:
    (vector,) = op.operands
    if vector.id not in x.wholes:
        x.set(op.result, [_word(x, vector)])
        return
    group, name = x.wholes[vector.id]
    count = lanes_of(op.result.type)
    words = x.f.value(f"bitcast {group} {name} to <{count} x i32>")
    x.set(
        op.result,
        [x.f.value(f"extractelement <{count} x i32> {words}, i64 {n}") for n in range(count)],
    )


def _made_at_once(x: Lowering, vector: Value) -> bool:
    """Whether one instruction makes a vector of 32 bits from words."""
    op = x.defs.get(vector.id)
    if op is None or _bits(vector) != _WORD:
        return False
    if op.name in _SUMS:
        return element_of(vector.type) == f16
    return op.name == "shuffle" and all(_bits(v) == _WORD for v in op.operands)


def _word(x: Lowering, vector: Value) -> str:
    """A vector of 32 bits as an i32."""
    op = x.defs.get(vector.id)
    if op is not None and op.name == "bitcast" and _bits(op.operands[0]) == _WORD:
        (before,) = op.operands
        return x.scalar(before) if _is_word(before) else _word(x, before)
    if op is None or not _made_at_once(x, vector):
        parts = x.parts(vector)
        (word,) = bitcast_parts(x.f, x.type_of(vector), Ty(u32), parts, 1)
        return word
    words = [_word(x, v) for v in op.operands]
    if op.name in _SUMS:
        return _sum(x, op.name, words)
    return x.f.call("llvm.nvvm.prmt", "i32", *(("i32", w) for w in words), ("i32", _places(op)))


def _sum(x: Lowering, name: str, words: Sequence[str]) -> str:
    """Of two f16, by the product and sum that no flag flushes: `add` and its like go by f32's."""
    pairs = [(_PAIR, x.f.value(f"bitcast i32 {w} to {_PAIR}")) for w in words]
    if name == "add":
        pairs = [pairs[0], (_PAIR, _both(_ONE)), pairs[1]]
    elif name == "sub":
        pairs = [pairs[1], (_PAIR, _both(_MINUS_ONE)), pairs[0]]
    elif name == "mul":
        pairs = [*pairs, (_PAIR, _both(_MINUS_ZERO))]
    made = x.f.call("llvm.nvvm.fma.rn.f16x2", _PAIR, *pairs)
    return x.f.value(f"bitcast {_PAIR} {made} to i32")


def _both(pattern: str) -> str:
    return f"<half {pattern}, half {pattern}>"


def _places(op: Op) -> str:
    """The bytes that a `shuffle` chooses, four bits for each, the lowest first."""
    chosen = op.attr("lanes")
    assert isinstance(chosen, tuple)
    each = element_of(op.result.type).bits // 8
    places = [n * each + k for n in chosen if isinstance(n, int) for k in range(each)]
    return str(sum(place << (4 * n) for n, place in enumerate(places)))
