"""The code of a kernel: what must be fast is, and what cannot be had is refused."""

from __future__ import annotations

import ctypes
import re
import threading
import time

import numpy as np
import pytest

from cpu_runner import ARCHS, Artifact, compiled, pool
from gristmill.backends.compile import CompileError
from gristmill.backends.cpu.arch import ARCHS as LEVELS
from gristmill.backends.cpu.kernel import write_kernel
from gristmill.backends.llvm import toolchain
from gristmill.ir import interp
from gristmill.ir.lang import *
from gristmill.ir.text import parse_kernel


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (ceil_div(len(y), 64), 1, 1))
def axpy(x: Read[f32], y: ReadWrite[f32], a: f32):
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]


@kernel(workgroup=lambda: (WX, WY, 1), grid=lambda: (2, 3, 1))
def places(y: Write[i32], *, WX: int = 64, WY: int = 1):
    across = num_groups(0) * WX
    i = global_id(1) * across + global_id(0)
    y[i] = local_id(0) * 100 + local_id(1) * 10000 + group_id(0) + 7 * group_id(1)


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def wraps(x: Read[i32], y: Write[i32], start: u32):
    lane = u32(local_id(0))
    at = start + lane
    if at < u32(16):
        y[local_id(0)] = x[at]


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (64, 1, 1))
def contended(total: ReadWrite[f32], low: ReadWrite[f32], high: ReadWrite[f32], n: ReadWrite[i32]):
    i = global_id(0)
    atomic_add(total, i % 3, 1.0)
    atomic_min(low, 0, f32(i) - 1000.0)
    atomic_max(high, 0, f32(i))
    atomic_add(n, 0, 1)


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (3, 1, 1))
def leaving(x: Read[i32], y: ReadWrite[i32], gate: i32):
    """Invocations return between the phases of a workgroup of several subgroups."""
    tile = workgroup_array(i32, 64)
    lid = local_id(0)
    i = global_id(0)
    tile[lid] = x[i]
    barrier()
    value = tile[63 - lid]
    if gate > 0:
        tile[lid] = 5
        barrier()
        value = value + tile[(lid + 1) % 64]
        if value % 3 == 0:
            return
        value = value * 2
    y[i] = value
    if value % 2 == 1:
        return
    y[i] = value + 1


@kernel(workgroup=lambda: (128, 1, 1), grid=lambda: (2, 1, 1))
def blocks(y: Write[i32], *, BOUND: int = 8):
    """Answers that a whole subgroup may or may not share."""
    lid = local_id(0)
    i = global_id(0)
    code = i32(0)
    if lid < BOUND:
        code += 1
    if lid >= BOUND:
        code += 2
    if BOUND > lid:  # noqa: SIM300 - the order is what is tested
        code += 4
    if BOUND <= lid:  # noqa: SIM300
        code += 8
    if lid <= BOUND:
        code += 16
    if lid > BOUND:
        code += 32
    if i == BOUND:
        code += 64
    code = code * 1000 + (lid // BOUND) * 100 + lid % BOUND
    y[i] = code * 7 + (i >> 3) + (lid & (BOUND - 1)) + (i & 31) + (i - 5) // BOUND + (i - 5) % BOUND


@kernel(workgroup=lambda: (16, 1, 1), grid=lambda: (1, 1, 1))
def fused(x: Read[f64], y: Write[f64]):
    i = global_id(0)
    y[i] = fma(x[i], x[i], x[i])


@kernel(workgroup=lambda: (256, 1, 1), grid=lambda: (1, 1, 1))
def row_sum(x: Read[f32], y: Write[f32], n: i32):
    lid = local_id(0)
    total = f32(0)
    for k in range(lid, n, 256):
        total += x[k]
    tile = workgroup_array(f32, 256)
    tile[lid] = total
    barrier()
    half = 128
    while half > 0:
        if lid < half:
            tile[lid] = tile[lid] + tile[lid + half]
        barrier()
        half = half // 2
    if lid == 0:
        y[0] = tile[0]


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def clamped(x: Read[u32], y: Write[u32], n: u32):
    i = global_id(0)
    if x[i] < n:
        value = min(max(x[i], u32(5)), u32(100))
        if value - u32(5) < u32(20):
            y[i] = value * u32(3)


def assembly(kernel_, arch: str) -> str:
    """What LLVM makes of a kernel that needs no passes."""
    level = LEVELS[arch]
    return pool().run(
        "gristmill.backends.llvm.toolchain:emit_assembly",
        write_kernel(kernel_, level)[0],
        level.machine,
    )


def test_lanes_that_are_not_active_hold_no_poison() -> None:
    """Ranges are facts of active lanes: a vector op must not promise them for all."""
    for arch in LEVELS.values():
        text, _ = write_kernel(clamped.trace("u32"), arch)
        assert re.search(r"= sub <\d+ x i32>", text)
        assert re.search(r"= mul <\d+ x i32>", text)
        assert not re.search(r"n[us]w <", text), text


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def releases(x: ReadWrite[i32], n: i32):
    old = x[local_id(0)]
    fence("device", "release")
    if n != 0:
        x[local_id(0)] = old + 1
    fence("device", "acquire")
    x[64] = n


def test_what_is_loaded_before_a_release_stays_there() -> None:
    """LLVM moves a load to the arm that reads it, but not past what may write memory."""
    for arch in LEVELS.values():
        text, _ = write_kernel(releases.trace("i32"), arch)
        words = re.findall(r'"~\{memory\}"|fence \w+', text)
        assert set(zip(words[::3], words[1::3], words[2::3], strict=True)) == {
            ('"~{memory}"', "fence release", "fence acquire")
        }


def test_full_subgroups_use_plain_vector_accesses() -> None:
    for arch, register in (("x86-64-v2", "xmm"), ("x86-64-v3", "ymm"), ("x86-64-v4", "zmm")):
        text = assembly(axpy.trace("f32"), arch)
        lines = [line for line in text.splitlines() if register in line and "{%k" not in line]
        assert any("mulps" in line for line in lines), text
        assert any("movups" in line and line.rstrip().endswith(")") for line in lines), text
        assert "gather" not in text
        assert "scatter" not in text


def test_tree_reduction_needs_no_masks_above_the_subgroup(
    x86: str, rng: np.random.Generator
) -> None:
    x, y = rng.integers(-9, 9, 3000).astype(np.float32), np.zeros(1, np.float32)
    Artifact(row_sum.trace("f32"), x86).run([x, y, 3000], (1, 1, 1))
    assert y[0] == x.sum()


@pytest.mark.parametrize(
    "size", [(10, 3), (1, 1), (3, 1), (1, 7), (4, 4), (8, 2), (33, 1), (2, 24)]
)
def test_any_workgroup_shape_gives_the_right_ids(size: tuple[int, int], arch: str) -> None:
    kernel_ = places.trace("ids", WX=size[0], WY=size[1])
    got, expected = (np.full(size[0] * size[1] * 6, -1, np.int32) for _ in range(2))
    interp.run(kernel_, [expected], (2, 3, 1))
    Artifact(kernel_, arch).run([got], (2, 3, 1))
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("bound", [1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 48, 64, 100, 128])
def test_blocks_of_lanes_are_told_apart(bound: int, arch: str) -> None:
    kernel_ = blocks.trace("i32", BOUND=bound)
    got, expected = (np.zeros(256, np.int32) for _ in range(2))
    interp.run(kernel_, [expected], (2, 1, 1))
    Artifact(kernel_, arch).run([got], (2, 1, 1))
    assert np.array_equal(got, expected)


def test_unsigned_index_may_wrap_between_lanes(arch: str) -> None:
    kernel_ = wraps.trace("u32")
    x = np.arange(100, 116, dtype=np.int32)
    for start in (0, 3, (1 << 32) - 5, (1 << 32) - 16, (1 << 31) - 2):
        got, expected = (np.full(32, -1, np.int32) for _ in range(2))
        interp.run(kernel_, [x, expected, start], (1, 1, 1))
        Artifact(kernel_, arch).run([x, got, start], (1, 1, 1))
        assert np.array_equal(got, expected), start


def test_atomics_of_two_threads_add_up(x86: str) -> None:
    artifact = Artifact(contended.trace("f32"), x86)
    buffers = [np.zeros(3, np.float32), np.zeros(1, np.float32), np.zeros(1, np.float32)]
    buffers.append(np.zeros(1, np.int32))
    words = artifact.words(buffers, (64, 1, 1), [b.ctypes.data for b in buffers], 0)
    block = ctypes.create_string_buffer(words, len(words))

    def work(first: int) -> None:
        for n in range(200):
            artifact.library.contended(block, (first + n) % 64, (first + n) % 64 + 1, None)

    threads = [threading.Thread(target=work, args=(n,)) for n in (0, 0, 31)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert buffers[3][0] == 3 * 200 * 64
    assert buffers[0].sum() == 3 * 200 * 64
    assert buffers[1][0] == -1000
    assert buffers[2][0] == 4095


@pytest.mark.parametrize("gate", [0, 1])
def test_invocations_may_return_between_phases(
    gate: int, arch: str, rng: np.random.Generator
) -> None:
    x = rng.integers(0, 1000, 192).astype(np.int32)
    got, expected = (np.full(192, -1, np.int32) for _ in range(2))
    interp.run(leaving.trace("i32"), [x, expected, gate], (3, 1, 1))
    Artifact(leaving.trace("i32"), arch).run([x, got, gate], (3, 1, 1))
    assert np.array_equal(got, expected)


def test_fused_f64_is_refused_below_fma() -> None:
    kernel_ = fused.trace("f64")
    with pytest.raises(CompileError, match=r"fused multiply-add of f64.*") as caught:
        compiled(kernel_, "x86-64-v2")
    assert caught.value.loc is not None
    for arch in ARCHS[1:]:
        compiled(kernel_, arch)


@pytest.mark.parametrize("arch", ARCHS)
def test_equal_kernels_give_equal_bytes(arch: str) -> None:
    first = compiled(row_sum.trace("f32"), arch)
    pool().run("math:sqrt", 4.0)  # the process has done something else
    assert compiled(row_sum.trace("f32"), arch) == first


def test_large_kernel_compiles_in_bounded_time() -> None:
    lines = ["kernel large u32", "param y: u32 buffer readwrite", "workgroup 64 1 1", "index i32"]
    lines += ["body(%0: buffer<u32,readwrite>) {", "  %1 = global_id {dim=0} : i32"]
    lines += ["  %2 = load %0, %1 : u32", "  %3 = const 2654435761 : u32"]
    at = 3
    for n in range(4000):
        name = ("mul", "xor", "add", "popcount")[n % 4]
        operands = f"%{at}" if name == "popcount" else f"%{at}, %{2 + n % (at - 1)}"
        lines.append(f"  %{at + 1} = {name} {operands} : u32")
        at += 1
    lines += [f"  store %0, %1, %{at}", "  return", "}"]
    start = time.monotonic()
    blob, _ = compiled(parse_kernel("\n".join(lines) + "\n"), "x86-64-v3")
    assert time.monotonic() - start < 300  # seconds on a quiet machine
    assert len(blob) < 1 << 20


def test_another_llvm_than_that_of_the_keys_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(toolchain, "LLVM_VERSION", (7, 0))
    machine = toolchain.Machine("x86_64-unknown-linux-gnu", "x86-64")
    with pytest.raises(
        toolchain.LlvmError, match=r"built with LLVM \d+\.\d+\.\d+, but .* with 7\.0"
    ):
        toolchain.emit_object("define void @k() { ret void }", machine)
