"""Signs of widened integers: lavapipe (Mesa 22.3) takes orderings of an i32 as an i64 for known."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.ir import interp
from kernel_text import kernel
from wgpu_driver import WgpuDriver

BODY = """
  %2 = local_id {{dim=0}} : i32
  %3 = load %0, %2 : i32
  %4 = convert %3 : i64
  %5 = {op} %4 : i64
  %6 = splat %5 : i64x2
  %7 = {op} %6 : i64x2
  %8 = extract %7 {{lane=1}} : i64
  store %1, %2, %8
  return"""


@pytest.mark.parametrize("op", ["sign", "abs", "neg"])
def test_signs_of_widened_integers(wgpu_driver: WgpuDriver, op: str) -> None:
    made = kernel("x: i32 buffer read, y: i64 buffer write", BODY.format(op=op))
    emitted = emit(made, "webgpu", Options())
    if "i64" not in wgpu_driver.features:
        assert wgpu_driver.lacks(emitted) == {"i64"}
        return
    x = np.array([-(2**31), -5, -1, 0, 1, 3, 7, 2**31 - 1] * 4, np.int32)
    expected, actual = [x, np.zeros(32, np.int64)], [x.copy(), np.zeros(32, np.int64)]
    interp.run(made, expected, (1, 1, 1))
    wgpu_driver.launch(made, emitted, actual, (1, 1, 1))
    np.testing.assert_array_equal(actual[1], expected[1])
