"""No module divides integers of 64 bits: NVIDIA's Vulkan compiler (580.159) does it wrongly."""

from __future__ import annotations

import re

import numpy as np
import pytest

from elementwise import WORKGROUP, expected, one_op
from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.ir.dtypes import DTYPES, f64, i64, u64
from wgpu_driver import WgpuDriver
from wide_integers import grouped


def test_no_module_divides_wide_integers() -> None:
    cases = [(op, t) for op in ("floordiv", "mod") for t in (i64, u64)]
    for op, t in [*cases, ("fmod", f64)]:
        for lanes in (1, 4):
            text = emit(one_op(op, [t, t], t, lanes), "webgpu", Options()).blob.decode()
            # What is left are quotients of f32, by a helper, and those of words for ids.
            left = [line for line in text.splitlines() if re.search(r" [/%] ", line)]
            assert all("* scale" in line or "linear" in line for line in left), left
            assert "floor_div" not in text
            assert "floor_mod" not in text


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("name", ["i64", "u64"])
def test_wide_quotients_are_exact(
    wgpu_driver: WgpuDriver, rng: np.random.Generator, name: str, lanes: int
) -> None:
    t = DTYPES[name]
    x, y, groups = grouped(t, rng, WORKGROUP * lanes)
    for op in ("floordiv", "mod"):
        k = one_op(op, [t, t], t, lanes)
        emitted = emit(k, "webgpu", Options())
        if "i64" not in wgpu_driver.features:
            assert wgpu_driver.lacks(emitted) == {"i64"}
            continue
        actual = np.zeros_like(x)
        wgpu_driver.launch(k, emitted, [x.copy(), y.copy(), actual], (groups, 1, 1))
        np.testing.assert_array_equal(actual, expected(op, [x, y], [t, t], t))
