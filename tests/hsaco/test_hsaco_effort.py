"""LLVM's passes where they pay: in short kernels and for private arrays. What it is given."""

from __future__ import annotations

import pytest

from gristmill.backends.compile import Options
from gristmill.backends.hsaco.effort import effort
from gristmill.backends.hsaco.emit import find_arch, prepare
from gristmill.backends.llvm import toolchain
from gristmill.ir.core import Kernel, walk
from hsaco_tools import compiled, shipped
from kernel_text import kernel

# Ops of the longest kernels after their passes: LLVM takes about 50 ms for a thousand.
LONGEST = 620
LONG = {"random_fill": 950, "sample_token": 780}  # functions in a row, which cost LLVM little
PRODUCTS = {
    "gfx906": 600,
    "gfx90a": 600,
    "gfx942": 440,
    "gfx1030": 560,
    "gfx1100": 620,
    "gfx1201": 580,
}


def long(count: int, first: str = "") -> Kernel:
    """A kernel of about `count` ops."""
    lines = ["%1 = local_linear_id : i32", first or "%2 = const 3 : i32"]
    lines += [f"store %0, %{1 if first else n}, %1" for n in (1, 2) for _ in range(count // 2)]
    return kernel("x: i32 buffer write", "\n".join([*lines, "return"]))


@pytest.mark.parametrize(("count", "some", "opt"), [(20, True, 2), (340, True, 2), (360, False, 1)])
def test_long_kernels_are_optimised_less(count: int, some: bool, opt: int) -> None:
    chosen = effort(long(count))
    assert (bool(chosen.passes), chosen.opt) == (some, opt)


@pytest.mark.parametrize(("count", "some"), [(60, True), (80, False)])
def test_arithmetic_of_vectors_counts_by_lanes(count: int, some: bool) -> None:
    lines = ["%1 = const 0 : i32", "%2 = load %0, %1 {lanes=8} : f32x8"]
    lines += [f"%{n + 3} = add %{n + 2}, %2 : f32x8" for n in range(count)]
    body = "\n".join([*lines, f"store %0, %1, %{count + 2}", "return"])
    assert bool(effort(kernel("x: f32 buffer readwrite", body)).passes) is some


def test_private_arrays_become_registers() -> None:
    body = """
    %2 = alloc {name="cells"} : private<i32,16>
    %3 = local_linear_id : i32
    %4 = const 5 : i32
    store %2, %4, %3
    %5 = load %2, %4 : i32
    store %1, %3, %5
    return"""
    k = kernel("x: i32 buffer read, y: i32 buffer write", body)
    assert effort(k).passes[0] == "sroa"
    assert compiled(k, "gfx1100")[1].facts["scratch_bytes"] == 0


@pytest.mark.parametrize(("turns", "unrolls"), [(8, True), (40, False)])
def test_loops_that_would_become_thousands_of_ops_are_not_unrolled(
    turns: int, unrolls: bool
) -> None:
    body = f"""
    %1 = const 0 : i32
    %2 = const {turns} : i32
    for %1, %2 body(%3: i32) {{
      for %1, %2 body(%4: i32) {{
        %5 = add %3, %4 : i32
        store %0, %5, %4
        continue
      }}
      continue
    }}
    return"""
    k = kernel("x: i32 buffer write", body)
    assert ("loop-unroll" in effort(k).passes) is unrolls


def test_every_pass_is_one_that_both_ways_to_llvm_know() -> None:
    for count in (20, 600):
        assert set(effort(long(count)).passes) <= set(toolchain._PASSES)


@pytest.mark.parametrize("arch", PRODUCTS)
def test_shipped_kernels_give_llvm_few_ops(arch: str) -> None:
    for path, k in shipped(f"hsaco-{arch}"):
        most = PRODUCTS[arch] if k.name == "matmul_fragments" else LONG.get(k.name, LONGEST)
        lowered = prepare(k, Options(), find_arch(k, arch))
        assert sum(1 for _ in walk(lowered.body)) <= most, path
