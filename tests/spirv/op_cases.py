"""One op on each of its types, and what of a device's answer its meaning does not allow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from elementwise import FLOATS, INTS, WORKGROUP, expected, samples, worst
from gristmill.backends.compile import Emitted
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import COMPUTED, DType, bool_, i32, u32
from gristmill.ir.ops import ROWS
from vulkan_driver import Driver

INT_BINARY = "add sub mul min max floordiv mod and or xor shl shr mul_high"
INT_UNARY = "neg abs sign not popcount clz ctz reverse_bits"
FLOAT_BINARY = "add sub mul min max div copysign"
FLOAT_UNARY = "neg abs sign sqrt rsqrt floor ceil trunc rint"
COMPARISONS = "eq ne lt le gt ge"

Case = tuple[str, list[DType], DType]


def cases() -> Iterator[Case]:
    for t in (*INTS, *FLOATS):
        for name in (INT_BINARY if t.is_int else FLOAT_BINARY).split():
            yield name, [t, t], t
        for name in (INT_UNARY if t.is_int else FLOAT_UNARY).split():
            yield name, [t], t
        for name in COMPARISONS.split():
            yield name, [t, t], bool_
    for t in FLOATS:
        yield "fma", [t, t, t], t
        for name in ("isnan", "isinf", "isfinite"):
            yield name, [t], bool_
    for name in ("and", "or", "xor", "eq", "ne"):
        yield name, [bool_, bool_], bool_
    yield "not", [bool_], bool_
    for t in COMPUTED.values():
        yield "select", [bool_, t, t], t
        for u in COMPUTED.values():
            yield "convert", [t], u


def dot_cases() -> Iterator[Case]:
    for a in (i32, u32):
        for b in (i32, u32):
            out = u32 if a == b == u32 else i32
            yield "dot4", [a, b, out], out


def flushed(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Results below the normal range, which a device may give as zero."""
    if dtype.name == "bf16":
        return (values & 0x7F80) == 0
    with np.errstate(invalid="ignore"):
        return np.abs(values.astype(np.float64)) < float(np.finfo(dtype.storage).tiny)


def _unfused(arrays: list[np.ndarray], types: list[DType], out: DType, flush: bool) -> np.ndarray:
    product = expected("mul", arrays[:2], types[:2], out)
    if flush:
        product = np.where(flushed(product, out), product.dtype.type(0), product)
    return expected("add", [product, arrays[2]], types[1:], out)


def difference(
    driver: Driver,
    kernel: Kernel,
    emitted: Emitted,
    case: Case,
    lanes: int,
    rng: np.random.Generator,
) -> str | None:
    """What is wrong with the answer of a device; None if nothing."""
    name, types, out = case
    count = 512 * lanes
    arrays = [samples(t, count, rng) for t in types]
    if name == "copysign":  # the sign of a NaN is unspecified
        arrays[1][_nan(arrays[1], types[1])] = 1
    wanted = expected(name, arrays, types, out)
    actual = np.zeros(count, out.storage)
    driver.launch(kernel, emitted, [*arrays, actual], (512 // WORKGROUP, 1, 1))
    if out.is_float and name in ("add", "sub", "mul", "div", "fma", "convert"):
        tiny = flushed(wanted, out)
        actual[tiny] = wanted[tiny]
    for flush in (False, True) if name == "fma" else ():  # fused or not, as the device has it
        other = _unfused(arrays, types, out, flush)
        plain = actual == other
        plain |= _nan(actual, out) & _nan(other, out)
        actual[plain] = wanted[plain]
    at, gap = worst(actual, wanted, out)
    if gap <= (ROWS[name].ulp or 0):
        return None
    inputs = ", ".join(str(a[at]) for a in arrays)
    types_text = ", ".join(map(str, types))
    return (
        f"{name}({types_text}) -> {out} x{lanes} of ({inputs}): got {actual[at]}, "
        f"expected {wanted[at]}, {gap} ulp"
    )


def _nan(values: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.name == "bf16":
        return (values & 0x7FFF) > 0x7F80
    return np.isnan(values)
