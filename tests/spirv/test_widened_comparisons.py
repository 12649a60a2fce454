"""Comparisons of a widened integer with a constant.

lavapipe (Mesa 22.3) takes those of an i32 as an i64 for constant.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.spirv.emit import emit, emit_lowered
from gristmill.ir.dtypes import DTYPES
from kernel_text import kernel
from vulkan_driver import Driver

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
CONSTANTS = (0, 1, 7, 127, 128, 2**31 - 1, 2**31, 2**32, 2**40, -1, -128, -(2**31), -(2**31) - 1)
PARAMS = "x: {} buffer read, y: i32 buffer write"
BODY = """
  %2 = local_id {{dim=0}} : i32
  %3 = load %0, %2 : {source}
  %4 = convert %3 : {wide}
  %5 = const {constant} : {wide}
  %6 = {op} {operands} : bool
  %7 = convert %6 : i32
  store %1, %2, %7
  return"""


@pytest.mark.parametrize("wide", ["i64", "u64"])
@pytest.mark.parametrize("source", ["i8", "u16", "i32", "u32"])
def test_a_widened_integer_beside_a_constant(driver: Driver, source: str, wide: str) -> None:
    t = DTYPES[source]
    edges = [t.min, t.min + 1, t.max - 1, t.max, 0, 1, 7, 127]
    x = np.array(edges * 4, t.storage)
    values = x.astype(np.int64).astype(DTYPES[wide].storage)
    for constant in (c for c in CONSTANTS if c >= 0 or wide == "i64"):
        for name in COMPARISONS:
            for operands in ("%4, %5", "%5, %4"):
                body = BODY.format(
                    source=source, wide=wide, constant=constant, op=name, operands=operands
                )
                made = kernel(PARAMS.format(source), body)
                pair = [values, values.dtype.type(constant)]
                expected = getattr(operator, name)(*(pair if operands == "%4, %5" else pair[::-1]))
                # As the passes leave it, and as the driver's compiler meets it where the constant
                # comes to light there only.
                for emitted in (
                    emit(made, "vulkan1.1", Options()),
                    emit_lowered(made, "vulkan1.1"),
                ):
                    if driver.lacks(emitted):
                        continue
                    actual = np.full(len(x), -1, np.int32)
                    driver.launch(made, emitted, [x.copy(), actual], (1, 1, 1))
                    np.testing.assert_array_equal(actual, expected, f"{source} {name} {constant}")
