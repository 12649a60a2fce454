"""Ways from the result of an op to an operand: the pass that cuts chains assumes enough of them."""

from __future__ import annotations

import numpy as np
import pytest

from every_op import cases
from gristmill.backends.compile import CompileError
from gristmill.backends.spirv.emit import emit_lowered
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Op, Param, Region
from gristmill.ir.dtypes import DTYPES, Access, DType, MemType, Space, i32
from gristmill.ir.passes.chains import ways_inside

LOAD, STORE, EXT_INST, EXTRACT = 61, 62, 12, 81


def kernel_of(name: str, t: DType, operands: int, out: DType) -> tuple[Kernel, Op]:
    """y[i] = op(x0[i], ...)."""
    b = Builder()
    kinds = [(t, Access.READ)] * operands + [(out, Access.WRITE)]
    params = tuple(Param(f"p{n}", "buffer", d, a) for n, (d, a) in enumerate(kinds))
    args = [b.value(MemType(Space.BUFFER, d, None, a), f"p{n}") for n, (d, a) in enumerate(kinds)]
    i = b.emit("global_id", type=i32, dim=0)
    values = [b.emit("load", a, i) for a in args[:-1]]
    op = b.op(name, values, {}, (out,) if name == "convert" else None)
    b.do("store", args[-1], i, op.result)
    b.do("return")
    return Kernel("ops", "t", params, (64, 1, 1), i32, Region(tuple(args), tuple(b.ops))), op


def ways(blob: bytes, operands: int) -> int:
    """The most ways from what is stored last to one of the last `operands` loads."""
    words, made, loads, stored = np.frombuffer(blob, np.uint32).tolist(), {}, [], 0
    at = 5
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        rest = words[at + 1 : at + length]
        at += length
        if opcode == STORE:
            stored = rest[1]
        elif opcode == LOAD:
            loads.append(rest[1])
        elif opcode == EXT_INST:
            made[rest[1]] = rest[4:]
        elif opcode == EXTRACT:
            made[rest[1]] = rest[2:3]
        elif 77 <= opcode <= 205:  # of composites, conversions, arithmetic, comparisons
            made[rest[1]] = rest[2:]

    def count(number: int, source: int) -> int:
        known = {source: 1}

        def follow(n: int) -> int:
            if n not in known:
                known[n] = sum(map(follow, made.get(n, ())))
            return known[n]

        return follow(number)

    return max(count(stored, source) for source in loads[-operands:])


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_no_op_has_more_ways_inside_than_are_assumed(t: DType) -> None:
    seen = 0
    for name, operands, out in cases(t, fused=True):
        if name == "select" or (name == "convert" and out == t):
            continue
        if t.name.startswith("f8") and out.is_bool:
            continue  # legalize makes it a test of bits
        made, op = kernel_of(name, t, len(operands), out)
        try:
            emitted = emit_lowered(made, "vulkan1.3")
        except CompileError:
            continue  # what legalize expands
        seen += 1
        assert ways(emitted.blob, len(operands)) <= ways_inside(op), f"{name} of {t} to {out}"
    assert seen > 3
