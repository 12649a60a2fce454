"""A constant 0 of a product is hidden from drivers; what nobody sees the sign of is left alone."""

from __future__ import annotations

import pytest

from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from kernel_text import kernel

HEAD = """
  %2 = local_id {dim=0} : i32
  %3 = load %0, %2 : f32
  %4 = const 0.0 : f32
  %5 = const 1.0 : f32
"""
TAIL = """
  store %1, %2, %9
  return"""
QUOTIENT = "\n  %9 = div %5, %6 : f32"
PRODUCT = "  %9 = mul %3, %4 : f32"
SUM = "  %9 = add %3, %4 : f32"
DIVISOR = "  %6 = add %3, %4 : f32" + QUOTIENT
FROM_A_VECTOR = """
  %7 = vector %4, %4, %3, %5 : f32x4
  %8 = extract %7 {lane=2} : f32
  %9 = mul %8, %3 : f32"""
BESIDE_A_NEGATION = """
  %7 = neg %3 : f32
  %8 = fma %3, %7, %5 : f32
  %9 = copysign %3, %8 : f32"""
DIFFERENCE = "  %9 = sub %3, %3 : f32"


@pytest.mark.parametrize(
    ("body", "hides"),
    [
        (PRODUCT, True),
        (SUM, False),
        (DIVISOR, True),
        (FROM_A_VECTOR, False),
        (BESIDE_A_NEGATION, False),
        (DIFFERENCE, True),
    ],
    ids=["product", "sum", "divisor", "lane", "negation", "difference"],
)
def test_a_zero_is_hidden_where_a_driver_would_lose_a_sign_or_a_nan(body: str, hides: bool) -> None:
    made = kernel("x: f32 buffer read, y: f32 buffer write", HEAD + body + TAIL)
    text = emit(made, "webgpu", Options()).blob.decode()
    assert ("nothing" in text) is hides, text
