"""Two f32 rounded to a word of two f16 or bf16 by one instruction (sm_80 and later), where a kernel
converts a pair and takes its bits: conversions of single elements go through a unit that is a
quarter as fast."""

from __future__ import annotations

from ...ir.core import Op
from ...ir.dtypes import bf16, element_of, f16, f32, lanes_of
from .lowering import Lowering

_NAMES = {f16: ("ff2f16x2", "<2 x half>"), bf16: ("ff2bf16x2", "<2 x bfloat>")}


def takes(x: Lowering, op: Op) -> bool:
    """Whether an op takes the bits of a pair that was rounded."""
    if op.name != "bitcast" or not x.arch.pairs or lanes_of(op.result.type) != 1:
        return False
    made = x.defs.get(op.operands[0].id)
    if made is None or made.name != "convert" or made.attrs:
        return False
    (source,) = made.operands
    kept = element_of(made.result.type)
    return element_of(source.type) == f32 and lanes_of(source.type) == 2 and kept in _NAMES


def emit(x: Lowering, op: Op) -> None:
    """The instruction takes the upper one first."""
    made = x.defs[op.operands[0].id]
    name, pair = _NAMES[element_of(made.result.type)]
    low, high = (("float", part) for part in x.parts(made.operands[0]))
    bits = x.f.call(f"llvm.nvvm.{name}.rn", pair, high, low)
    whole = x.type_of(op.result)
    x.set(op.result, [x.f.value(f"bitcast {pair} {bits} to {whole.text}")])
