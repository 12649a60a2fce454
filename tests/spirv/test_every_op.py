"""Every op on every type and width gives what its meaning says, on every driver."""

from __future__ import annotations

import numpy as np
import pytest

from elementwise import WORKGROUP, expected, one_op, samples, worst
from gristmill.backends.compile import Options
from gristmill.backends.spirv.emit import emit_lowered, prepare, validate
from gristmill.ir.dtypes import f32, u32
from gristmill.ir.ops import meaning as m
from gristmill.ir.passes.support import ROUNDINGS
from op_cases import Case, cases, difference, dot_cases, flushed
from vulkan_driver import Driver


def check(driver: Driver, case: Case, lanes: int, rng: np.random.Generator) -> str | None:
    """What is wrong with a case; None if nothing, `lacks` where the device cannot run it."""
    kernel = one_op(*case, lanes)
    if case[0] in {"floordiv", "mod", *ROUNDINGS} and case[2].bits == 64:
        kernel = prepare(kernel, Options())
    emitted = emit_lowered(kernel, "vulkan1.1")
    if driver.lacks(emitted):
        return "lacks"
    validate(emitted.blob, "vulkan1.1", kernel)
    validate(emit_lowered(kernel, "vulkan1.3").blob, "vulkan1.3", kernel)
    return difference(driver, kernel, emitted, case, lanes, rng)


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
    tiny = flushed(wanted, f32)
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
