"""Code too long for LLVM's scheduler, compiled with the least effort, computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.hsaco.effort import effort
from gristmill.ir import interp
from gristmill.ir.text import parse_kernel
from hsaco_tools import Emulated
from long_kernels import long_code, many_values


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("text", [long_code(3010), many_values(601)], ids=["code", "values"])
def test_long_code_equals_the_interpreter(
    text: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    kernel = parse_kernel(text)
    assert effort(kernel).opt == 0
    expected = [rng.uniform(-1, 1, 64 * 601).astype(np.float32) for _ in kernel.params]
    got = [a.copy() for a in expected]
    interp.run(kernel, expected, (1, 1, 1))
    Emulated(kernel, arch).run(got, (1, 1, 1), rng)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_array_equal(a, b)
