"""Packed f32 of gfx90a and later: v_pk_*_f32 and v_pk_mov_b32 on pairs of registers.

op_sel and op_sel_hi name, for the low and for the high result, the half of each source pair.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decode import Instruction, Operand
from .exact import fma
from .operands import B32, Read, flush, raw_scalar, vector_index
from .registry import Step, instruction
from .state import Arch, Array, Machine

OPERATIONS: dict[str, Callable[..., Array]] = {
    "v_pk_add_f32": np.add,
    "v_pk_mul_f32": np.multiply,
    "v_pk_fma_f32": fma,
}


def _half(i: Instruction, o: Operand, high: int) -> Read:
    """uint32 of the low or high register of a pair; of a constant only the low half is known."""
    if o.is_vector:
        first = vector_index(o) + high
        return lambda m: m.read(first)
    if o.kind == "s":
        n = o.index + high
        return lambda m: m.scalar(n)[:, None]
    if high:
        raise i.unknown(f"the upper half of {o.text}")
    inner = raw_scalar(i, o, B32)
    return lambda m: inner(m)[:, None]


def _pair(i: Instruction, high: bool) -> list[Read]:
    """The sources of the low or the high result."""
    sources = i.operands[1:]
    default = (1,) * len(sources) if high else (0,) * len(sources)
    select = i.bits("op_sel_hi" if high else "op_sel", default)
    return [_half(i, o, select[k]) for k, o in enumerate(sources)]


def _check(i: Instruction) -> int:
    d = i.operands[0]
    if d.kind not in ("v", "a") or d.count != 2 or any(o.neg or o.abs for o in i.operands):
        raise i.unknown("operands of a packed instruction")
    if any(o.kind == "literal" for o in i.operands):
        raise i.unknown("a literal in a packed instruction")
    return vector_index(d)


@instruction(*OPERATIONS, modifiers=("op_sel", "op_sel_hi", "neg_lo", "neg_hi"), generations=(9,))
def _packed(i: Instruction, arch: Arch) -> Step:
    first, operation = _check(i), OPERATIONS[i.mnemonic]
    sides = []
    for high in (False, True):
        signs = i.bits("neg_hi" if high else "neg_lo", (0, 0, 0))
        flips = [np.uint32(s << 31) for s in signs]
        sides.append((_pair(i, high), flips))

    def step(m: Machine) -> None:
        results = []
        for reads, flips in sides:
            values = [
                np.ascontiguousarray(read(m) ^ flip).view(np.float32)
                for read, flip in zip(reads, flips, strict=False)
            ]
            if not m.mode.denormal_32 & 1:
                values = [flush(v) for v in values]
            result = operation(*values)
            results.append(result if m.mode.denormal_32 & 2 else flush(result))
        for k, result in enumerate(results):
            m.write(first + k, np.ascontiguousarray(result).view(np.uint32))

    return step


@instruction("v_pk_mov_b32", modifiers=("op_sel", "op_sel_hi"), generations=(9,))
def _packed_move(i: Instruction, arch: Arch) -> Step:
    """The low result from the first source, the high one from the second; op_sel picks halves."""
    first = _check(i)
    select = i.bits("op_sel", (0, 0))
    reads = [_half(i, i.operands[k + 1], select[k]) for k in range(2)]

    def step(m: Machine) -> None:
        values = [np.array(np.broadcast_to(read(m), m.mask.shape)) for read in reads]
        for k, value in enumerate(values):
            m.write(first + k, value)

    return step
