"""Buffers, arrays, vector accesses, atomics, barriers and fault sites on every driver."""

from __future__ import annotations

import numpy as np
import pytest

from elementwise import NUMBERS, samples
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import COMPUTED, DTYPES
from kernel_bodies import FAULT_SITES, FAULTS, tree_sum
from kernel_text import agree, disassembly, emitted, kernel
from vulkan_driver import Driver

INTS = ("i32", "u32", "i64", "u64")


@pytest.mark.parametrize("dtype", [str(t) for t in COMPUTED.values()])
def test_copy_through_private_and_workgroup_arrays(
    driver: Driver, dtype: str, rng: np.random.Generator
) -> None:
    t = DTYPES[dtype]
    k = kernel(
        f"x: {dtype} buffer read, y: {dtype} buffer write",
        f"""
        %2 = alloc {{name="tile"}} : workgroup<{dtype},32>
        %3 = alloc {{name="own"}} : private<{dtype},4>
        %4 = local_linear_id : i32
        %5 = load %0, %4 : {dtype}
        store %2, %4, %5
        barrier
        %6 = const 31 : i32
        %7 = sub %6, %4 : i32
        %8 = load %2, %7 : {dtype}
        %9 = const 3 : i32
        %10 = and %4, %9 : i32
        store %3, %10, %8
        %11 = load %3, %10 : {dtype}
        store %1, %4, %11
        return""",
    )
    x = samples(t, 32, rng)
    agree(driver, k, [x, np.zeros(32, t.storage)])


@pytest.mark.parametrize("dtype", ["f32", "i32", "u8", "f16", "bf16", "f64", "bool", "i64"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_vector_and_scalar_accesses_of_one_buffer(
    driver: Driver, dtype: str, lanes: int, rng: np.random.Generator
) -> None:
    k = kernel(
        f"x: {dtype} buffer read, y: {dtype} buffer readwrite",
        f"""
        %2 = alloc {{name="tile"}} : workgroup<{dtype},{32 * lanes}>
        %3 = local_linear_id : i32
        %4 = load %0, %3 {{lanes={lanes}}} : {dtype}x{lanes}
        %5 = load %0, %3 : {dtype}
        %6 = insert %4, %5 {{lane=1}} : {dtype}x{lanes}
        store %2, %3, %6
        %7 = load %2, %3 {{lanes={lanes}}} : {dtype}x{lanes}
        store %1, %3, %7
        %8 = const {lanes} : i32
        %9 = mul %3, %8 : i32
        store %1, %9, %5
        %10 = load %2, %9 : {dtype}
        store %1, %9, %10
        return""",
    )
    t = DTYPES[dtype]
    agree(driver, k, [samples(t, 32 * lanes, rng), np.zeros(32 * lanes, t.storage)])


def test_views_of_one_binding_are_aliased_and_single_ones_restrict() -> None:
    k = kernel(
        "x: f32 buffer read, y: f32 buffer write, z: f32 buffer readwrite may_alias",
        """
        %3 = local_id {dim=0} : i32
        %4 = load %0, %3 {lanes=4} : f32x4
        %5 = load %0, %3 : f32
        store %1, %3, %5
        %6 = load %2, %3 : f32
        store %2, %3, %6
        store %1, %3, %5
        return""",
    )
    text = disassembly(emitted(k))
    assert text.count("Aliased") == 3  # both views of x, and z
    assert text.count("Restrict") == 1  # y
    assert text.count("NonReadable") == 1
    assert text.count("NonWritable") == 2  # both views of x


def test_private_arrays_start_as_zero(driver: Driver) -> None:
    k = kernel(
        "y: f32 buffer write",
        """
        %1 = alloc {name="own"} : private<f32,5>
        %2 = local_id {dim=0} : i32
        %3 = const 4 : i32
        %4 = and %2, %3 : i32
        %5 = load %1, %4 : f32
        store %0, %2, %5
        return""",
    )
    agree(driver, k, [np.ones(32, np.float32)])


@pytest.mark.parametrize("where", ["buffer", "workgroup"])
@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
def test_integer_atomics(driver: Driver, kind: str, where: str, rng: np.random.Generator) -> None:
    for dtype in INTS:
        t = DTYPES[dtype]
        agree(
            driver, atomic_kernel(dtype, kind, where), [samples(t, 32, rng), np.zeros(1, t.storage)]
        )


ONLY_FIRST = """
        if %90 {{
          {code}
          yield
        }} else {{
          yield
        }}"""


def atomic_kernel(dtype: str, kind: str, where: str, start: str = "5") -> Kernel:
    """Every invocation of one workgroup updates one cell, which ends in y[0]."""
    target, setup, finish = "%1", "", ""
    if where == "workgroup":
        target = "%99"
        first = f"%98 = const {start} : {dtype}\nstore %99, %4, %98"
        last = f"%96 = load %99, %4 : {dtype}\nstore %1, %4, %96"
        setup = ONLY_FIRST.format(code=first) + "\nbarrier"
        finish = "barrier\n" + ONLY_FIRST.format(code=last)
    return kernel(
        f"x: {dtype} buffer read, y: {dtype} buffer readwrite",
        f"""
        %99 = alloc {{name="cell"}} : workgroup<{dtype},1>
        %2 = local_id {{dim=0}} : i32
        %4 = const 0 : i32
        %90 = eq %2, %4 : bool
        {setup}
        %3 = load %0, %2 : {dtype}
        %5 = atomic {target}, %4, %3 {{kind="{kind}"}} : {dtype}
        {finish}
        return""",
    )


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("where", ["buffer", "workgroup"])
@pytest.mark.parametrize("kind", ["add", "min", "max"])
def test_float_atomics(
    driver: Driver, kind: str, where: str, native: bool, rng: np.random.Generator
) -> None:
    """Portable compare-exchange loops by default, native instructions where allowed."""
    features = ("atomic_f32_add", "atomic_shared_f32_add", "atomic_f64_add", "atomic_f32_minmax")
    for dtype in ("f32", "f64"):
        x = rng.integers(-50, 50, 32).astype(dtype.replace("f", "float"))
        k = atomic_kernel(dtype, kind, where, "5.0")
        allowed = features if native else ()
        agree(driver, k, [x, np.zeros(1, x.dtype)], native=allowed)
        required = set(emitted(k, native=allowed).requires) & set(features)
        if not native:
            assert not required


def test_a_nan_loses_in_atomic_min(driver: Driver) -> None:
    x = np.array([np.nan, 3, -2, np.nan] * 8, np.float32)
    k = atomic_kernel("f32", "min", "buffer")
    results = agree(driver, k, [x, np.full(1, np.nan, np.float32)])
    assert results is not None
    assert results[1][0] == -2


@pytest.mark.parametrize("dtype", ["i32", "u32", "f32", "i64", "f64"])
@pytest.mark.parametrize(
    "op", ['atomic {mem}, %4, %3 {{kind="exchange"}}', "compare_exchange {mem}, %4, %6, %3"]
)
def test_exchange_takes_turns(
    driver: Driver, dtype: str, op: str, rng: np.random.Generator
) -> None:
    """One invocation, so that the outcome is known: the old values come back in order."""
    zero = "0.0" if dtype.startswith("f") else "0"
    code = op.format(mem="%1")
    k = kernel(
        f"x: {dtype} buffer read, y: {dtype} buffer readwrite, z: {dtype} buffer write",
        f"""
        %4 = const 0 : i32
        %20 = const 4 : i32
        for %4, %20 body(%21: i32) {{
          %3 = load %0, %21 : {dtype}
          %6 = const {zero} : {dtype}
          %5 = {code} : {dtype}
          store %2, %21, %5
          continue
        }}
        return""",
        workgroup="1 1 1",
    )
    t = DTYPES[dtype]
    x = rng.integers(1, 100, 4).astype(t.storage)
    agree(driver, k, [x, np.zeros(1, t.storage), np.zeros(4, t.storage)])


def test_tree_reduction_through_workgroup_memory(driver: Driver, rng: np.random.Generator) -> None:
    k = kernel(
        "x: f32 buffer read, y: f32 buffer write",
        f"""
        %2 = alloc {{name="tile"}} : workgroup<f32,64>
        %3 = local_id {{dim=0}} : i32
        %4 = global_id {{dim=0}} : i32
        %5 = load %0, %4 : f32
        store %2, %3, %5
        barrier
        {tree_sum("f32", 32, "%3", "%2", 6)}
        %19 = const 0 : i32
        %20 = eq %3, %19 : bool
        if %20 {{
          %21 = group_id {{dim=0}} : i32
          %22 = load %2, %19 : f32
          store %1, %21, %22
          yield
        }} else {{
          yield
        }}
        return""",
        workgroup="64 1 1",
    )
    x = rng.integers(-99, 99, 64 * 20).astype(np.float32)
    results = agree(driver, k, [x, np.zeros(20, np.float32)], (20, 1, 1))
    assert results is not None
    np.testing.assert_array_equal(results[1], x.reshape(20, 64).sum(1))


def test_a_barrier_orders_buffers_only_where_they_are_shared() -> None:
    """0x108 orders workgroup memory, 0x148 buffers too."""
    before = kernel(
        "x: f32 buffer read, y: f32 buffer write",
        "%2 = local_id {dim=0} : i32\n%3 = load %0, %2 : f32\nbarrier\nstore %1, %2, %3\nreturn",
    )
    assert barrier_semantics(before) == 0x108
    shared = kernel(
        "y: f32 buffer readwrite",
        "%2 = local_id {dim=0} : i32\n%3 = load %0, %2 : f32\nbarrier\nstore %0, %2, %3\nreturn",
    )
    assert barrier_semantics(shared) == 0x148
    assert "Coherent" in disassembly(emitted(shared))


@pytest.mark.parametrize(("order", "bits"), [("acquire", 2), ("release", 4), ("acq_rel", 8)])
def test_a_fence_orders_buffers_and_what_the_workgroup_shares(order: str, bits: int) -> None:
    """0x40: buffers, 0x100: workgroup memory, where the kernel has any."""
    fence = f'fence {{order="{order}", scope="workgroup"}}'
    body = f"%2 = local_id {{dim=0}} : i32\n%3 = load %0, %2 : f32\n{fence}\nstore %1, %2, %3"
    params = "x: f32 buffer read, y: f32 buffer write"
    assert barrier_semantics(kernel(params, f"{body}\nreturn"), "OpMemoryBarrier") == 0x40 | bits
    shared = f'%4 = alloc {{name="t"}} : workgroup<f32,32>\n{body}\nstore %4, %2, %3\nreturn'
    assert barrier_semantics(kernel(params, shared), "OpMemoryBarrier") == 0x140 | bits


def barrier_semantics(k: Kernel, op: str = "OpControlBarrier") -> int:
    text = disassembly(emitted(k))
    (line,) = [s for s in text.split("\n") if op in s]
    name = line.split()[-1]
    (constant,) = [s for s in text.split("\n") if s.strip().startswith(f"{name} = OpConstant ")]
    return int(constant.split()[-1])


def test_asserts_set_their_bits_and_execution_goes_on(driver: Driver) -> None:
    k = kernel(
        "x: i32 buffer read, y: i32 buffer write",
        FAULTS,
        header=FAULT_SITES,
    )
    agree(driver, k, [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)])
    agree(driver, k, [np.zeros(32, np.int32), np.zeros(32, np.int32)])
    words = driver.launch(
        k, emitted(k), [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)], (1, 1, 1),
        fault_base=61,
    )  # fmt: skip
    assert words.tolist() == [0, 1 << 29]


def test_by_value_scalars_of_every_type(driver: Driver) -> None:
    for t in [*NUMBERS, DTYPES["bool"]]:
        value = True if t.is_bool else (-2.5 if t.is_float else t.max - 2)
        k = kernel(
            f"a: {t} scalar, n: {t} scalar, y: {t} buffer write",
            "%3 = local_id {dim=0} : i32\nstore %2, %3, %1\nreturn",
        )
        agree(driver, k, [value, value, np.zeros(32, t.storage)])


def test_counts_come_from_the_call(driver: Driver) -> None:
    k = kernel(
        "x: f32 buffer read, y: i32 buffer write",
        """
        %2 = local_id {dim=0} : i32
        %3 = count %0 : i32
        store %1, %2, %3
        return""",
    )
    y = np.zeros(32, np.int32)
    driver.launch(k, emitted(k), [np.zeros(50, np.float32), y], (1, 1, 1), counts=[17, 32])
    assert (y == 17).all()
