"""Operands of divisions of floats that a driver may know to be 0.

SwiftShader and llvmpipe take 0 / x for 0, where it is a NaN if x is 0 or a NaN itself; and x / 0 is
undefined to llvmpipe. So emitters hide such operands behind what only the program's run can tell.
"""

from __future__ import annotations

from ..ir.core import Kernel, Op, bits_float, walk
from ..ir.dtypes import MemType, Space, element_of
from ..ir.passes.effects import PURE

_LANES = frozenset({"vector", "splat", "insert", "extract", "shuffle"})  # they compute nothing


def zeros(kernel: Kernel) -> frozenset[int]:
    """The values that a compiler may know to be 0, at least in a lane: such constants, what is
    loaded from a private array, as nothing may have written it, what is made of those alone, and
    vectors that have one of them for a lane."""
    known: set[int] = set()  # what a compiler may compute
    found: set[int] = set()
    for op in walk(kernel.body):
        if len(op.results) != 1:
            continue
        result, operands = op.results[0], [v.id for v in op.operands]
        if op.name == "const":
            known.add(result.id)
            if not _nonzero(op):
                found.add(result.id)
        elif op.name == "load":
            memory = op.operands[0].type
            if isinstance(memory, MemType) and memory.space is Space.PRIVATE:
                known.add(result.id)
                found.add(result.id)
        elif op.name in _LANES:
            if known.issuperset(operands):
                known.add(result.id)
            if not found.isdisjoint(operands):
                found.add(result.id)
        elif op.name in PURE and known.issuperset(operands):
            known.add(result.id)
            found.add(result.id)
    return frozenset(found)


def _nonzero(constant: Op) -> bool:
    """Whether a constant is neither 0 nor -0."""
    bits, t = constant.attr("bits"), constant.results[0].type
    assert isinstance(bits, int)
    dtype = element_of(t)
    return bits_float(bits, dtype) != 0 if dtype.is_float else bits != 0
