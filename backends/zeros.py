"""Operands of divisions of floats, and of products with infinities, that a driver may know to be 0.

SwiftShader and llvmpipe take 0 / x for 0, where it is a NaN if x is 0 or a NaN itself; x / 0 is
undefined to llvmpipe, and 0 times anything is 0 to it. So emitters hide such operands behind what
only the program's run can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..ir.core import Kernel, Op, bits_float, walk
from ..ir.dtypes import DType, MemType, Space, VectorType, element_of
from ..ir.passes.effects import PURE

LANES = frozenset({"vector", "splat", "insert", "extract", "shuffle"})  # they compute nothing


def zeros(kernel: Kernel) -> frozenset[int]:
    """The values that a compiler may know to be 0, at least in a lane: such constants, what is
    loaded from a private array, as nothing may have written it, x - x, what is made of those alone,
    floats that loops and branches bring, and what is made of one of all these, such as 0 * x, by
    way of integers too, as roundings are."""
    known: set[int] = set()  # what a compiler may compute
    found: set[int] = set()
    words: set[int] = set()  # integers made of floats that were found
    negated: dict[int, int] = {}
    for op in walk(kernel.body):
        if op.regions:
            found.update(_carried(op))
        if op.regions or len(op.results) != 1:
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
        elif op.name in PURE:
            if op.name == "neg":
                negated[result.id] = operands[0]
            lanes, whole = op.name in LANES, known.issuperset(operands)
            if whole:
                known.add(result.id)
            kind = element_of(result.type)
            is_float = kind.is_float
            if is_float and not words.isdisjoint(operands):
                found.add(result.id)
            elif kind.is_int:
                for v in op.operands:
                    if v.id in words or (v.id in found and element_of(v.type).is_float):
                        words.add(result.id)
                        break
            part = lanes or is_float
            nothing = op.name in ("add", "sub") and cancels(op.name, operands, negated)
            if nothing or (whole and not lanes) or (part and not found.isdisjoint(operands)):
                found.add(result.id)
    return frozenset(found)


def _carried(op: Op) -> Iterator[int]:
    """The floats that come into the regions of an op and out of it."""
    for value in (*op.results, *(v for r in op.regions for v in r.args)):
        t = value.type
        if isinstance(t, DType | VectorType) and element_of(t).is_float:
            yield value.id


def infinite(constant: Op) -> bool:
    """Whether a constant is an infinity of either sign."""
    bits, dtype = constant.attr("bits"), element_of(constant.results[0].type)
    return dtype.is_float and isinstance(bits, int) and abs(bits_float(bits, dtype)) == math.inf


def cancels(name: str, operands: list[int], negated: dict[int, int]) -> bool:
    """Whether a sum or difference is x - x."""
    a, b = operands
    return a == b if name == "sub" else negated.get(a) == b or negated.get(b) == a


def _nonzero(constant: Op) -> bool:
    """Whether a constant is neither 0 nor -0."""
    bits, t = constant.attr("bits"), constant.results[0].type
    assert isinstance(bits, int)
    dtype = element_of(t)
    return bits_float(bits, dtype) != 0 if dtype.is_float else bits != 0
