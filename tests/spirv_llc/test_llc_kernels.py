"""Kernels that need what LLVM lacks or gets wrong compute what the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.backends.compile import Emitted, Options
from gristmill.backends.spirv_llc.emit import emit, emit_lowered
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from kernel_text import kernel as from_text
from vulkan_driver import Driver

GROUPS = (4, 1, 1)


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def exchanges(x: Read[f32], greatest: ReadWrite[f32], taken: ReadWrite[i32], sums: ReadWrite[u32]):
    """Atomics on floats, compare-and-swap, a fence."""
    i = global_id(0)
    atomic_max(greatest, 0, x[i])
    fence("device", "acq_rel")
    atomic_compare_exchange(taken, i // 2, 0, 1)
    atomic_xor(sums, 0, u32(i))


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def wide_exchanges(ends: ReadWrite[i64], taken: ReadWrite[u64]):
    """The same of 64 bits."""
    i = global_id(0)
    atomic_max(ends, 0, i64(i) * 10_000_000_000)
    atomic_min(ends, 1, i64(i) * -10_000_000_000)
    atomic_compare_exchange(taken, i // 2, u64(0), u64(1) << 40)


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def leaves(n: Read[i32], y: Write[i32]):
    """Ways out of nested constructs, and what must not run on those ways."""
    i = global_id(0)
    y[i] = -1
    total = 0
    for j in range(n[i]):
        if j % 3 == 1:
            if j % 2 == 1:
                continue
            total += 100
        k = j
        while k > 0 and total < 5000:
            k -= 1
            if k == 7:
                continue
            match k % 4:
                case 0:
                    total += 1
                case 1:
                    if total % 5 == 4:
                        break
                case 3:
                    if total > 2000:
                        y[i] = total
                        return
                case _:
                    total += k
            total += 2
        if total % 11 == 10:
            break
        total += j
    y[i] = total + 7


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def converts(x: Read[f32], a: Write[i32], b: Write[u32], c: Write[i8], d: Write[bf16]):
    """Conversions that saturate; NaN gives 0."""
    i = global_id(0)
    a[i] = i32(x[i])
    b[i] = u32(x[i])
    c[i] = convert(x[i], i8, saturate=True)
    d[i] = bf16(x[i])


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def lanes(x: Read[i32], up: Write[i32], down: Write[i32], votes: Write[u32], *, SUBGROUP: int = 8):
    """Lanes at any distance, also where there is none."""
    i = global_id(0)
    up[i] = subgroup_shuffle_up(x[i], x[i] % 11)
    down[i] = subgroup_shuffle_down(x[i], x[i] % 11)
    votes[i] = subgroup_ballot(x[i] % 3 == 0)


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (4, 1, 1))
def widened(n: Read[i32], y: Write[i32]):
    """Orderings of an i32 as an i64 with constants, which Mesa (22.3) takes for known."""
    i = global_id(0)
    wide = i64(n[i])
    y[i] = i32(min(wide, 35)) + select(wide < 7, 1000, 0) + select(wide >= -3, 100_000, 0)


def agree(driver: Driver, k: Kernel, given: list[Any], emitted: Emitted | None = None) -> None:
    """Compare every buffer with the interpreter's, where the device has what it takes."""
    emitted = emitted or emit(k, "vulkan1.1", Options())
    if lacking := driver.lacks(emitted):
        assert driver.label == "swiftshader"
        assert lacking <= {"i64", "atomic_i64", "storage8", "storage16"}
        return
    wanted, actual = ([a.copy() for a in given] for _ in range(2))
    report = interp.run(k, wanted, GROUPS)
    assert not report.problems, report.problems
    driver.launch(k, emitted, actual, GROUPS)
    for param, a, b in zip(k.params, actual, wanted, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=param.name)


def test_atomics_and_fences_that_llvm_does_not_have(
    driver: Driver, rng: np.random.Generator
) -> None:
    x = rng.standard_normal(128).astype(np.float32)
    given = [x, np.full(1, -9, np.float32), np.arange(64, dtype=np.int32) % 2]
    agree(driver, exchanges.trace("s"), [*given, np.ones(1, np.uint32)])


def test_atomics_of_64_bits(driver: Driver) -> None:
    agree(driver, wide_exchanges.trace("s"), [np.zeros(2, np.int64), np.zeros(64, np.uint64)])


def test_every_way_out_of_a_construct(driver: Driver) -> None:
    n = (np.arange(128, dtype=np.int32) * 37) % 61
    agree(driver, leaves.trace("s"), [n, np.zeros(128, np.int32)])


def test_conversions_saturate(driver: Driver, rng: np.random.Generator) -> None:
    edges = [2.0**31, 2.0**32, 127.5, 128.0, 0.5, 1e30, np.inf, 2147483520.0, 4294967040.0]
    x = np.concatenate([edges, np.negative(edges), [np.nan, 0, -0.0], rng.normal(0, 1e9, 107)])
    types = (np.int32, np.uint32, np.int8, np.uint16)
    arrays = [np.zeros(128, t) for t in types]
    agree(driver, converts.trace("s"), [x.astype(np.float32), *arrays])


def test_orderings_of_widened_integers(driver: Driver) -> None:
    x = np.arange(-64, 64, dtype=np.int32)
    agree(driver, widened.trace("s"), [x, np.zeros(128, np.int32)])


def test_conversions_of_negative_constants(driver: Driver) -> None:
    """LLVM leaves a choice of constants to the driver's optimizer, which goes by the sign of their
    type."""
    k = from_text(
        "x: f32 buffer write, y: f32 buffer write",
        """
        %2 = global_id {dim=0} : i32
        %3 = const -2147483648 : i32
        %4 = const 7 : i32
        %5 = const true : bool
        %6 = select %5, %3, %4 : i32
        %8 = abs %6 : i32
        %9 = convert %8 : f32
        store %0, %2, %9
        %7 = convert %6 : f32
        store %1, %2, %7
        return""",
    )
    given = [np.zeros(128, np.float32) for _ in range(2)]
    agree(driver, k, given, emit_lowered(k, "vulkan1.1"))


def test_lanes_at_any_distance(driver: Driver, rng: np.random.Generator) -> None:
    x = rng.integers(0, 1000, 128).astype(np.int32)
    k = lanes.trace("s", SUBGROUP=driver.subgroup)
    agree(driver, k, [x, *(np.zeros(128, t) for t in (np.int32, np.int32, np.uint32))])
