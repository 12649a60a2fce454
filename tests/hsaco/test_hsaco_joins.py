"""What a branch brings to a join stays its own.

LLVM 22.1 moves a value that costs nothing out of its branch, and other paths got it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.text import parse_kernel
from hsaco_tools import BASELINES, Emulated

# The value of the default is a part of a vector, which LLVM moves behind the `switch`.
TEXT = """kernel chosen test
param out: u32 buffer readwrite
workgroup 32 1 1
index i64
body(%out.0: buffer<u32,readwrite>) {
%1 = alloc {name="shared_i64"} : workgroup<i64,128>
  %2 = local_linear_id : i64
  %3 = const 0 : i64
  %4 = add %3, %2 : i64
  %5 = global_id {dim=1} : i64
  %6 = convert %5 : i32
  %7 = const 1168175044525994334 : i64
  %8 = splat %7 : i64x4
  store %1, %2, %8
  barrier
  %9 = const 0 : i32
  %10 = load %1, %9 {lanes=4} : i64x4
  %11 = const false : bool
  if %11 {
    yield
  } else {
    barrier
    yield
  }
  %12 = const 0 : i32
  %13 = const 0 : i32
  %24, %25 = while %12, %13 : i32, i32 cond(%14: i32, %15: i32) {
    %16 = const 4 : i32
    %17 = lt %14, %16 : bool
    %18 = const true : bool
    %19 = and %17, %18 : bool
    condition %19
  } body(%20: i32, %21: i32) {
    %22 = const 1 : i32
    %23 = add %20, %22 : i32
    continue %23, %20
  }
  %26 = const 7 : i32
  %27 = splat %26 : i32x4
  %28 = insert %27, %25 {lane=1} : i32x4
  %29 = extract %28 {lane=3} : i32
  %30 = mul_high %24, %6 : i32
  %31 = ctz %24 : i32
  %32 = floordiv %30, %31 : i32
  %33 = shl %29, %32 : i32
  %37 = switch %33 {cases=[2, 3, 5]} : i64 case {
    return
  } case {
    %34 = const 1 : i64
    yield %34
  } case {
    %35 = const 0 : i64
    yield %35
  } default {
    %36 = extract %10 {lane=0} : i64
    yield %36
  }
  %38 = const 0 : i64
  %39 = const 0 : u32
  %40 = const 8 : i64
  %41 = mul %4, %40 : i64
  %42 = sub %37, %38 : i64
  %43 = neg %42 : i64
  %44 = const 8 : i64
  %45 = mod %43, %44 : i64
  %46 = add %41, %45 : i64
  store %out.0, %46, %39
  return
}
"""


@pytest.mark.parametrize("arch", [*BASELINES, "gfx90a", "gfx1030"])
def test_a_value_that_costs_nothing_stays_in_its_branch(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    kernel = parse_kernel(TEXT)
    expected, got = (np.full(32 * 8, 9, np.uint32) for _ in range(2))
    interp.run(kernel, [expected], (1, 1, 1))
    Emulated(kernel, arch).run([got], (1, 1, 1), rng)
    np.testing.assert_array_equal(got, expected)
