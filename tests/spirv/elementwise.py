"""Kernels of one op, with inputs that reach its corners and the op's meaning as reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gristmill.ir import float8
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region
from gristmill.ir.dtypes import (
    COMPUTED,
    Access,
    DType,
    MemType,
    Space,
    VectorType,
    i32,
)
from gristmill.ir.ops import ROWS
from gristmill.ir.ops.meaning import round_bf16

WORKGROUP = 32


def one_op(
    name: str,
    operands: Sequence[DType],
    result: DType,
    lanes: int = 1,
    attrs: Mapping[str, Any] | None = None,
) -> Kernel:
    """out[i] = name(in0[i], in1[i], ...) for all i; buffers hold elements of these types."""
    b = Builder()
    params, args = [], []
    for n, t in enumerate([*operands, result]):
        access = Access.WRITE if n == len(operands) else Access.READ
        params.append(Param(f"p{n}", "buffer", t, access))
        args.append(b.value(MemType(Space.BUFFER, t, None, access), f"p{n}"))
    i = b.emit("global_id", type=i32, dim=0)
    shape = {"lanes": lanes} if lanes > 1 else {}
    values = [b.emit("load", a, i, **shape) for a in args[:-1]]
    wanted = VectorType(result, lanes) if lanes > 1 else result
    needs = name in ("convert", "bitcast")
    value = b.op(name, values, attrs, (wanted,) if needs else None).result
    b.do("store", args[-1], i, value)
    b.do("return")
    body = Region(tuple(args), tuple(b.ops))
    return Kernel(name, "test", tuple(params), (WORKGROUP, 1, 1), i32, body)


def samples(dtype: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values of a type in its memory form: corners first, then random bits and small numbers."""
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(bool)
    bits = rng.integers(0, 256, (count, dtype.bytes), dtype=np.uint8).view(f"u{dtype.bytes}")[:, 0]
    if not dtype.computes:
        return bits
    if dtype.is_float:
        return _floats(dtype, bits.copy(), count, rng)
    values = bits.view(dtype.storage).copy()
    corners = [dtype.min, dtype.max, 0, 1, 2, 3, 7, 8, dtype.max - 1, dtype.min + 1]
    corners += [1 << n for n in range(dtype.bits - 1)] + ([-1, -2, -7] if dtype.is_signed else [])
    small = rng.random(count) < 0.3
    low = -9 if dtype.is_signed else 0
    values[small] = rng.integers(low, 10, int(small.sum()))
    picked = rng.random(count) < 0.4
    values[picked] = rng.choice(np.array(corners, dtype.storage), int(picked.sum()))
    return values


_CORNERS = (
    "0 -0.0 1 -1 0.5 -0.5 1.5 2.5 -2.5 0.49999997 nan inf -inf 127 128 -128 -129 255 256 32767 "
    "32768 65504 65519 65520 -65520 2147483520 2147483648 -2147483648 4294967040 4294967296 9.2e18 "
    "9223372036854775808 -9223372036854775808 1.8446744073709552e19 3e38 -3e38 1e-30 2049 2051 "
    "16777217 0.1 257.0 258.5 3.0039062 3.0117188"
)


def _floats(dtype: DType, bits: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    corners = np.array([float(w) for w in _CORNERS.split()])
    with np.errstate(all="ignore"):
        values = rng.normal(0, 1, count) * 10.0 ** rng.integers(-3, 12, count)
        small = rng.random(count) < 0.3
        values[small] = rng.integers(-40, 41, int(small.sum())) / 4
        picked = rng.random(count) < 0.4
        values[picked] = rng.choice(corners, int(picked.sum()))
        if dtype.name == "bf16":
            return (round_bf16(values).view(np.uint32) >> 16).astype(np.uint16)
        result = values.astype(dtype.storage)
    raw = rng.random(count) < 0.2
    result[raw] = bits.view(dtype.storage)[raw]
    with np.errstate(all="ignore"):  # devices may flush what is denormal
        tiny = np.abs(result.astype(np.float64)) < float(np.finfo(dtype.storage).tiny)
    result[tiny & (result != 0)] = 1
    return result


def opened(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The memory form as meanings take it: bf16 and 8-bit floats as float32."""
    if not dtype.computes:
        return float8.decode(array, dtype.name)
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def closed(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The inverse of `opened`; rounds to bf16."""
    if not dtype.computes:
        return float8.encode(array, dtype.name)
    if dtype.name == "bf16":
        return (round_bf16(array).view(np.uint32) >> 16).astype(np.uint16)
    return array.astype(dtype.storage)


def expected(
    name: str, arrays: Sequence[np.ndarray], types: Sequence[DType], out: DType
) -> np.ndarray:
    """The op's meaning on memory forms, in memory form."""
    meaning = ROWS[name].meaning
    assert meaning is not None
    opens = [opened(a, t) for a, t in zip(arrays, types, strict=True)]
    with np.errstate(all="ignore"):
        return closed(meaning(*opens, out=out), out)


def worst(actual: np.ndarray, wanted: np.ndarray, dtype: DType) -> tuple[int, float]:
    """Where two results differ most and by how much: ulp for floats, else 0 or infinity.

    All NaNs are equal, and so are zeros of either sign.
    """
    a, b = opened(actual, dtype), opened(wanted, dtype)
    if not dtype.is_float:
        wrong = np.flatnonzero(a != b)
        return (int(wrong[0]), np.inf) if len(wrong) else (0, 0.0)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        step = np.abs(np.spacing(b)) * (65536 if dtype.name == "bf16" else 1)
        gap = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble)) / step
    gap = np.where(same, 0, np.where(np.isnan(gap), np.inf, gap))
    at = int(np.argmax(gap))
    return at, float(gap[at])


NUMBERS = [t for t in COMPUTED.values() if not t.is_bool]
INTS = [t for t in NUMBERS if t.is_int]
FLOATS = [t for t in NUMBERS if t.is_float]
