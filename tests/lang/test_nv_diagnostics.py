"""What is wrong with the use of extensions is told at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.ir.lang import *
from gristmill.ir.text import parse_kernel, print_kernel
from nv_kernels import bulk_turned, grid_sums, product


def test_the_text_of_extensions_reads_back() -> None:
    for traced in (bulk_turned.trace("s"), grid_sums.trace("s"), product.trace("s", WORDS=True)):
        assert parse_kernel(print_kernel(traced)) == traced


@kernel(workgroup=lambda: SIZE, grid=lambda: 1)
def wrong(x: Read[f16], y: ReadWrite[f16], w: Write[f32], n: i32, f: f32, *, SIZE: int = 128,
          WHAT: str = "", SUBGROUP: int = 32):  # fmt: skip
    tile = workgroup_array(f16, (64, 64))
    other = workgroup_array(f32, (64, 32))
    words = workgroup_array(u32, 8)
    ready = nv.mbarriers(2)
    total = registers(f32, 32)
    if WHAT == "no mbarrier":
        nv.wait(words, 0, 0)
    if WHAT == "number of an mbarrier":
        nv.arrive(ready, 2)
    if WHAT == "shape":
        nv.tensor_map(x, (i32(x[0]), n), (64, 64))
    if WHAT == "float extent":
        nv.tensor_map(x, (f, n), (64, 64))
    if WHAT == "box":
        nv.tensor_map(x, (n, n), (64, 65))
    if WHAT == "box of 257":
        nv.tensor_map(x, (n, n), (257, 64))
    if WHAT == "rank":
        nv.tensor_map(x, (n, n), (64,))
    if WHAT == "swizzle":
        nv.tensor_map(x, (n, n), (64, 64), swizzle=16)
    if WHAT == "map":
        nv.tensor_load(x, (0, 0), tile, 0, ready, 0)
    if WHAT == "coordinates":
        nv.tensor_load(nv.tensor_map(x, (n, n), (64, 64)), (0, 0, 0), tile, 0, ready, 0)
    if WHAT == "elements":
        nv.tensor_load(nv.tensor_map(x, (n, n), (64, 64)), (0, 0), other, 0, ready, 0)
    if WHAT == "place":
        nv.tensor_load(nv.tensor_map(x, (n, n), (64, 64)), (0, 0), tile, 8, ready, 0)
    if WHAT == "store to read":
        nv.tensor_store(nv.tensor_map(x, (n, n), (64, 64)), (0, 0), tile, 0)
    if WHAT == "load of write":
        nv.tensor_load(nv.tensor_map(w, (n, n), (64, 32)), (0, 0), other, 0, ready, 0)
    if WHAT == "sum":
        nv.wgmma(registers(i32, 32), tile, 0, tile, 0)
    if WHAT == "registers":
        nv.wgmma(registers(f32, 6), tile, 0, tile, 0)
    if WHAT == "depth":
        nv.wgmma(total, tile, 0, tile, 0, depth=24)
    if WHAT == "operands":
        nv.wgmma(total, other, 0, tile, 0)
    if WHAT == "transposed":
        nv.wgmma(total, other, 0, other, 0, transposed=True)
    if WHAT == "words":
        nv.wgmma(total, registers(u32, 8), None, tile, 0)
    if WHAT == "half a warpgroup":
        nv.wgmma(total, tile, 0, tile, 0)
    if WHAT == "element":
        nv.mma(registers(f32, 4), registers(u32, 4), registers(u32, 2), f32)
    if WHAT == "mixed":
        nv.mma(registers(f32, 4), registers(u32, 4), registers(u32, 2), (f16, bf16))
    if WHAT == "warp sum":
        nv.mma(registers(f32, 4), registers(u32, 4), registers(u32, 2), i8)
    if WHAT == "warp words":
        nv.mma(registers(f32, 4), registers(u32, 4), registers(u32, 4), f16)
    if WHAT == "half a warp" and local_id(0) < 16:
        nv.mma(registers(f32, 4), registers(u32, 4), registers(u32, 2), f16)
    if WHAT == "role" and nv.role(4, 1):
        nv.arrive(ready, 0)
    if WHAT == "register count":
        nv.set_max_registers(100)
    if WHAT == "barrier number":
        nv.named_barrier(16, 32)
    if WHAT == "barrier size":
        nv.named_barrier(1, 33)
    if WHAT == "arrival size":
        nv.named_arrive(1, 2048)
    if WHAT == "divergent arrival" and local_id(0) < n:
        nv.named_arrive(1, 64)
    if WHAT == "begins" and n > 0:
        nv.wgmma(total, tile, 0, tile, 0, accumulate=n > 1)
    if WHAT == "divergent product" and nv.role(0, 1):
        nv.wgmma(total, tile, 0, tile, 0)
    if WHAT == "product of some" and local_id(0) < n:
        nv.wgmma_wait(total)
    if WHAT == "divergent grid" and group_id(0) == 0:
        grid_barrier()
    if WHAT == "divergent barrier" and nv.role(0, 4):
        barrier()
    y[0] = f16(total[0])


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no mbarrier", "mbarriers come from nv.mbarriers"),
        ("number of an mbarrier", "index 2 is out of range"),
        ("shape", "a launch has to compute this"),
        ("float extent", "a launch has to compute this"),
        ("box", "a row of a box is a multiple of 16 bytes and at most 128, found 130"),
        ("box of 257", "the extents of a box are 1 to 256"),
        ("rank", "a box has 2 extents as the tensor has"),
        ("swizzle", "a swizzle is one of 0, 32, 64, 128 bytes, found 16"),
        ("map", "expected what nv.tensor_map gives, found the buffer 'x' of f16"),
        ("coordinates", "2 coordinates are needed, found 3"),
        ("elements", "a copy moves elements as they are"),
        ("place", "the index is a multiple of 512 elements"),
        ("store to read", "'x' is read-only"),
        ("load of write", "'w' is write-only"),
        ("sum", "products of f16 are summed in f32 or f16, found i32"),
        ("registers", "a sum has 4, 8, .. or 128 registers"),
        ("depth", "a product of f16 is 16, 32 .. 64 deep, found 24"),
        ("operands", "a product of f32 and f16"),
        ("transposed", "a transposed tile holds 16-bit elements"),
        ("words", "a in registers is 16 words of u32, found 8 of u32"),
        ("element", "nv.mma multiplies f16, bf16, i8, u8, or i8 with u8; found f32, f32"),
        ("mixed", "nv.mma multiplies .*; found f16, bf16"),
        ("warp sum", "a sum is 4 registers of i32, found 4 of f32"),
        ("warp words", "b is 2 registers of u32, found"),
        ("half a warp", "nv_warp_mma under a condition that differs between invocations of a s"),
        ("role", "a workgroup has subgroups 0 to 3, found 1 from 4 on"),
        ("register count", "a multiple of 8 from 24 to 240, found 100"),
        ("barrier number", "named barriers are 1 to 15, found 16"),
        ("barrier size", "whole subgroups wait at a named barrier, found 33"),
        ("arrival size", "whole subgroups wait at a named barrier, found 2048"),
        ("divergent arrival", "nv_named_arrive under a condition that differs"),
        ("begins", "whether a product is added to the sum"),
        ("divergent product", "nv_wgmma under a condition that differs between invocations of a w"),
        ("product of some", "nv_wgmma_wait under a condition that differs"),
        ("divergent grid", "grid_barrier under a condition that differs between workgroups of a"),
        ("divergent barrier", "barrier under a condition that differs between invocations of a w"),
    ],
)
def test_wrong_use_is_refused(what: str, message: str) -> None:
    with pytest.raises(Diagnostic, match=message) as caught:
        wrong.trace("s", WHAT=what)
    lines = Path(__file__).read_text().splitlines()
    (line,) = [n for n, text in enumerate(lines, 1) if text.startswith(f'    if WHAT == "{what}"')]
    assert line <= caught.value.loc.line <= line + 2


def test_a_workgroup_without_whole_warpgroups_is_refused() -> None:
    with pytest.raises(Diagnostic, match="a warpgroup has 128 invocations: a workgroup of 64"):
        wrong.trace("s", WHAT="half a warpgroup", SIZE=64)


def test_the_rest_of_it_is_right() -> None:
    wrong.trace("s")
