"""Every op on every type and width gives what its meaning says, on every driver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from elementwise import FLOATS, INTS, WORKGROUP, expected, one_op, samples, worst
from gristmill.backends.spirv.emit import emit_lowered, validate
from gristmill.ir.dtypes import COMPUTED, DType, bool_, f32, i32, u32
from gristmill.ir.ops import ROWS
from gristmill.ir.ops import meaning as m
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


def _flushed(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Results below the normal range, which a device may give as zero."""
    if dtype.name == "bf16":
        return (values & 0x7F80) == 0
    with np.errstate(invalid="ignore"):
        return np.abs(values.astype(np.float64)) < float(np.finfo(dtype.storage).tiny)


def _unfused(arrays: list[np.ndarray], types: list[DType], out: DType, flush: bool) -> np.ndarray:
    product = expected("mul", arrays[:2], types[:2], out)
    if flush:
        product = np.where(_flushed(product, out), product.dtype.type(0), product)
    return expected("add", [product, arrays[2]], types[1:], out)


def check(driver: Driver, case: Case, lanes: int, rng: np.random.Generator) -> str | None:
    """What is wrong with a case; None if nothing, `lacks` where the device cannot run it."""
    name, types, out = case
    kernel = one_op(name, types, out, lanes)
    emitted = emit_lowered(kernel, "vulkan1.1")
    if driver.lacks(emitted):
        return "lacks"
    validate(emitted.blob, "vulkan1.1", kernel)
    validate(emit_lowered(kernel, "vulkan1.3").blob, "vulkan1.3", kernel)
    count = 512 * lanes
    arrays = [samples(t, count, rng) for t in types]
    if name == "copysign":  # the sign of a NaN is unspecified
        arrays[1][_nan(arrays[1], types[1])] = 1
    wanted = expected(name, arrays, types, out)
    actual = np.zeros(count, out.storage)
    driver.launch(kernel, emitted, [*arrays, actual], (512 // WORKGROUP, 1, 1))
    if out.is_float and name in ("add", "sub", "mul", "div", "fma", "convert"):
        tiny = _flushed(wanted, out)
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


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_every_op_gives_its_meaning(driver: Driver, lanes: int, rng: np.random.Generator) -> None:
    every = [*cases(), *(dot_cases() if lanes == 1 else ())]
    found = [check(driver, case, lanes, rng) for case in every]
    wrong = [text for text in found if text not in (None, "lacks")]
    assert not wrong, "\n".join(map(str, wrong))
    assert found.count(None) >= 60


def test_packed_dot_product_in_hardware_agrees(driver: Driver, rng: np.random.Generator) -> None:
    for case in dot_cases():
        name, types, out = case
        kernel = one_op(name, types, out)
        for arch in ("vulkan1.1", "vulkan1.3"):
            emitted = emit_lowered(kernel, arch, frozenset({"dot4"}))
            validate(emitted.blob, arch, kernel)
            assert "dot4" in emitted.requires
            arrays = [samples(t, 256, rng) for t in types]
            actual = np.zeros(256, out.storage)
            driver.launch(kernel, emitted, [*arrays, actual], (8, 1, 1))
            np.testing.assert_array_equal(actual, expected(name, arrays, types, out))


def test_division_by_the_greatest_floats(driver: Driver) -> None:
    """NVIDIA gives 0 for f32 divisors beyond 2**126."""
    kernel = one_op("div", [f32, f32], f32)
    emitted = emit_lowered(kernel, "vulkan1.1")
    a = np.array([1.4e29, 3.4e38, -3.4e38, np.inf, 1, 0, np.nan, 8] * 4, np.float32)
    b = np.array([1.14e38, 3.4e38, 2e38, 2e38, np.inf, 3e38, 3e38, -3e38] * 4, np.float32)
    actual = np.zeros(32, np.float32)
    driver.launch(kernel, emitted, [a, b, actual], (1, 1, 1))
    wanted = expected("div", [a, b], [f32, f32], f32)
    tiny = _flushed(wanted, f32)
    actual[tiny] = wanted[tiny]
    assert worst(actual, wanted, f32)[1] <= 2.5


def test_large_unsigned_words_become_floats_rounded_once(driver: Driver) -> None:
    """SwiftShader's own conversion rounds u32 values from 2**31 on wrongly."""
    kernel = one_op("convert", [u32], f32)
    emitted = emit_lowered(kernel, "vulkan1.1")
    words = np.array([2755121309, 3627856249, 0xFFFFFFFF, 0x80000080, 0x800000C0] * 32, np.uint32)
    actual = np.zeros(len(words), np.float32)
    driver.launch(kernel, emitted, [words, actual], (len(words) // WORKGROUP, 1, 1))
    np.testing.assert_array_equal(actual, m.convert(words, out=f32))
