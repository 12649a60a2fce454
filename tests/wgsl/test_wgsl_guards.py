"""What drivers may not rearrange they cannot: sums that are taken apart again come out right."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from kernel_text import kernel
from wgpu_driver import WgpuDriver

HEAD = """
  %2 = local_id {dim=0} : i32
  %3 = load %0, %2 : f32
  %4 = const 12582912.0 : f32
"""
TAIL = """
  store %1, %2, %9
  return"""
ROUND = "  %5 = add %3, %4 : f32\n  %9 = sub %5, %4 : f32"
# (1.5 x + c) - c
FUSED = "  %5 = const 1.5 : f32\n  %6 = fma %3, %5, %4 : f32\n  %9 = sub %6, %4 : f32"
ERROR = "  %5 = add %3, %4 : f32\n  %6 = sub %5, %4 : f32\n  %9 = sub %3, %6 : f32"
# c - (x - d), where passes cannot know c but compilers do
KNOWN = """
  %10 = const 0.375 : f32
  %11 = const true : bool
  %12 = const false : bool
  %13 = vector %11, %12 : boolx2
  %14 = vector %10, %4 : f32x2
  %15 = splat %10 : f32x2
  %16 = select %13, %14, %15 : f32x2
  %17 = splat %4 : f32x2
  %5 = add %16, %17 : f32x2
  %6 = sub %5, %17 : f32x2
  %18 = sub %16, %6 : f32x2
  %9 = extract %18 {lane=0} : f32"""
SQUARES = "  %5 = mul %3, %3 : f32\n  %6 = mul %3, %4 : f32\n  %9 = sub %5, %6 : f32"


# The same of vectors
LANES = """
  %5 = splat %3 : f32x2
  %6 = splat %4 : f32x2
  %7 = add %5, %6 : f32x2
  %8 = sub %7, %6 : f32x2
  %10 = sub %5, %8 : f32x2
  %9 = extract %10 {lane=1} : f32"""


def made(body: str, t: str = "f32") -> Kernel:
    text = (HEAD + body + TAIL).replace("f32", t)
    return kernel(f"x: {t} buffer read, y: {t} buffer write", text)


@pytest.mark.parametrize("body", [ROUND, FUSED, ERROR, KNOWN, SQUARES])
def test_sums_are_computed_as_they_are_written(
    wgpu_driver: WgpuDriver, rng: np.random.Generator, body: str
) -> None:
    made_kernel = made(body)
    x = rng.uniform(-1000, 1000, 64).astype(np.float32)
    expected, actual = [x, np.zeros(64, np.float32)], [x, np.zeros(64, np.float32)]
    interp.run(made_kernel, expected, (1, 1, 1))
    wgpu_driver.launch(made_kernel, emit(made_kernel, "webgpu", Options()), actual, (1, 1, 1))
    if body == FUSED:  # a driver need not fuse: a tie may go the other way
        assert np.abs(actual[1] - expected[1]).max() <= 1
        assert (actual[1] == np.round(actual[1])).all()
    else:
        np.testing.assert_array_equal(actual[1], expected[1])


def test_sums_of_f64_are_hidden_too(wgpu_driver: WgpuDriver, rng: np.random.Generator) -> None:
    for body in (ROUND, ERROR, LANES):
        made_kernel = made(body.replace("12582912.0", "6755399441055744.0"), "f64")
        x = rng.uniform(-1000, 1000, 64)
        expected, actual = [x, np.zeros(64)], [x, np.zeros(64)]
        interp.run(made_kernel, expected, (1, 1, 1))
        emitted = emit(made_kernel, "webgpu", Options())
        if "f64" not in wgpu_driver.features:
            assert wgpu_driver.lacks(emitted) == {"f64", "i64"}
            continue
        wgpu_driver.launch(made_kernel, emitted, actual, (1, 1, 1))
        np.testing.assert_array_equal(actual[1], expected[1])


def guards(k: Kernel) -> int:
    return emit(k, "webgpu", Options()).blob.decode().count("(nothing)")


def test_only_what_needs_it_is_guarded() -> None:
    assert guards(made("  %9 = add %3, %4 : f32")) == 0
    assert guards(made(ROUND)) == guards(made(FUSED)) == 1
    assert guards(made(ERROR)) == 2  # x - (s - c) is not to be (x + c) - s either
    assert guards(made(SQUARES)) == 1  # a product with a constant is not
    assert guards(replace(made(SQUARES), fast=("contract",))) == 0


@pytest.mark.parametrize(("divisor", "hidden"), [("%4", 1), ("%9", 0)])
def test_a_quotient_by_itself_is_not_known_to_be_one(divisor: str, hidden: int) -> None:
    k = kernel(
        "x: f32 buffer read, y: f32 buffer write, n: f32 scalar",
        f"""
  %3 = local_id {{dim=0}} : i32
  %4 = load %0, %3 : f32
  %9 = neg %2 : f32
  %5 = div %4, {divisor} : f32
  store %1, %3, %5
  return""",
    )
    assert guards(k) == hidden


def test_no_compiler_knows_the_condition_by_what_its_hardware_can_launch() -> None:
    text = emit(made(ROUND), "webgpu", Options()).blob.decode()
    (condition,) = (line for line in text.splitlines() if "let nothing" in line)
    assert re.fullmatch(r"  let nothing = params\[\d\]\.[xyzw] >> 31u;", condition)
