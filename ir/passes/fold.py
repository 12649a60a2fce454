"""Constant folding: what numpy says an op means, evaluated where all operands are constants.

Only rows marked `fold` take part: their results are correctly rounded, so they do not depend on
the machine that compiles. A NaN result is the quiet one of `float_bits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from .. import float8
from ..core import Kernel, Op, Value
from ..dtypes import DTYPES, DType, VectorType
from ..ops import ROWS
from ..ops.meaning import round_bf16

if TYPE_CHECKING:
    from .rewrite import Rewriter

FOLDED = frozenset(n for n, r in ROWS.items() if r.fold) | {"bitcast"}
_NAN = {name: row.nan for name, row in float8.FORMATS.items()}
_NAN |= {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "f64": 0x7FF8000000000000}


@dataclass(frozen=True)
class Fold:
    """Evaluate ops on constants, apply exact identities, resolve constant control flow."""

    name: str = "fold"

    def __call__(self, kernel: Kernel) -> Kernel:
        from .identities import SIMPLE
        from .rewrite import Rewriter

        return Rewriter(kernel, SIMPLE, flow=True).run()


def fold_op(rw: Rewriter, op: Op) -> Value | None:
    """The constant that `op` computes, if its operands are constants (or splats of them)."""
    known = rw.known
    for v in op.operands:
        if v.id not in known:
            return _fold_splat(rw, op)
    result = op.results[0].type
    if not isinstance(result, DType):
        return None
    bits = evaluate(
        op.name,
        result.name,
        tuple([v.type.name for v in op.operands]),  # type: ignore[union-attr]
        tuple([known[v.id] for v in op.operands]),
    )
    return rw.const(bits, result)


def _fold_splat(rw: Rewriter, op: Op) -> Value | None:
    result = op.results[0].type
    if not isinstance(result, VectorType):
        return None
    names, patterns = [], []
    for v in op.operands:
        bits = rw.bits.get(v.id)
        # A bitcast that changes the number of lanes has no meaning per lane.
        if bits is None or (op.name == "bitcast" and _lanes(v) != result.lanes):
            return None
        names.append(v.type.element.name if isinstance(v.type, VectorType) else str(v.type))
        patterns.append(bits)
    return rw.const(evaluate(op.name, result.element.name, tuple(names), tuple(patterns)), result)


def _lanes(v: Value) -> int:
    return v.type.lanes if isinstance(v.type, VectorType) else 1


@lru_cache(4096)
def evaluate(name: str, out: str, types: tuple[str, ...], patterns: tuple[int, ...]) -> int:
    """The bit pattern of scalar op `name` of result type `out` on these bit patterns."""
    if name == "bitcast":
        return patterns[0]
    meaning = ROWS[name].meaning
    assert meaning is not None
    dtype = DTYPES[out]
    arrays = [to_array(bits, DTYPES[t]) for bits, t in zip(patterns, types, strict=True)]
    return from_array(meaning(*arrays, out=dtype), dtype)


def to_array(bits: int, dtype: DType) -> np.ndarray:
    """A one-element array in the form that `OpRow.meaning` takes."""
    if dtype.is_bool:
        return np.array([bool(bits)])
    if dtype.name == "bf16":
        return np.array([bits << 16], np.uint32).view(np.float32)
    if not dtype.computes:
        return float8.decode(np.array([bits], np.uint8), dtype.name)
    return np.array([bits], f"u{dtype.bytes}").view(dtype.storage)


def from_array(array: np.ndarray, dtype: DType) -> int:
    """The bit pattern of a one-element result; every NaN is the quiet one."""
    if dtype.is_bool:
        return int(bool(array[0]))
    if dtype.is_float and np.isnan(array[0]):
        return _NAN[dtype.name]
    if dtype.name == "bf16":
        return int(round_bf16(array).view(np.uint32)[0]) >> 16
    if not dtype.computes:
        return int(float8.encode(array, dtype.name)[0])
    array = np.ascontiguousarray(array, dtype.storage)
    return int(array.view(f"u{dtype.bytes}")[0])
