"""Fragments in code objects: the instructions that are there, and what they compute emulated."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from fragment_kernels import (
    KINDS,
    LAYOUTS,
    Product,
    attention_case,
    make_product,
    swizzled_case,
    tolerance,
)
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.kernels.matmul_fragments import FAMILIES
from hsaco_tools import Emulated, compiled, lanes
from need import llvm_tool
from test_hsaco_runs_kernels import judge

WITH = ("gfx1100", "gfx1201", "gfx908", "gfx90a", "gfx942", "gfx950")
SOME = [
    k
    for k in KINDS
    if k[0] in ("f16", "bf16", "f32") or k[:2] in (("u8", "i8"), ("f8e4m3", "f8e5m2"))
]
EIGHT = {"f8e4m3": "fp8", "f8e5m2": "bf8"}
MFMA = {
    "gfx908": {"f16": "f32_16x16x16f16", "bf16": "f32_16x16x8bf16", "i8": "i32_16x16x16i8"},
    "gfx90a": {"bf16": "f32_16x16x16bf16_1k", "i8": "i32_16x16x16i8"},
    "gfx942": {"f32": "f32_16x16x8_xf32"},
}
PAIRED = {  # two products along k
    ("f16", "f16", "f32"): "f32_16x16x32_f16",
    ("bf16", "bf16", "f32"): "f32_16x16x32_bf16",
    ("i8", "i8", "i32"): "i32_16x16x64_i8",
}
USUAL = {"f16": "f32_16x16x16_f16", "bf16": "f32_16x16x16_bf16", "i8": "i32_16x16x32_i8"}


def cases(rng: np.random.Generator, size: int) -> Iterator[Product]:
    """Every kind of product, in turn in each layout, from buffers or from workgroup arrays."""
    start = int(rng.integers(2 * len(LAYOUTS)))
    for n, kinds in enumerate(KINDS, start):
        yield make_product(rng, kinds, LAYOUTS[n % 4], size, bool(n // 4 % 2))


def instruction(arch: str, a: str, b: str, c: str) -> str:
    """The mnemonic of a product, which takes b first; empty: there is none."""
    if arch in ("gfx906", "gfx9-generic", "gfx1030", "gfx10-3-generic"):
        return ""
    if arch.startswith("gfx1"):
        if a in EIGHT and arch.startswith("gfx12"):
            return f"v_wmma_f32_16x16x16_{EIGHT[b]}_{EIGHT[a]}"
        kind = {"i8": "iu8", "u8": "iu8"}.get(a, "f16" if a in EIGHT else a)
        return "" if a == "f32" else f"v_wmma_{c if a == 'f16' else sum_of(c)}_16x16x16_{kind}"
    if a in EIGHT and arch == "gfx950":
        return f"v_mfma_f32_16x16x32_{EIGHT[b]}_{EIGHT[a]}"
    kind = {"u8": "i8"}.get(a, "f16" if a in EIGHT else a)
    plain = "f32_16x16x4f32" if arch in ("gfx908", "gfx90a") else "f32_16x16x4_f32"
    table = MFMA.get(arch, {})
    if arch == "gfx950" and (a, b, c) in PAIRED:
        return f"v_mfma_{PAIRED[a, b, c]}"
    if arch == "gfx90a" and kind == "f16":
        return f"v_mfma_{plain}"
    usual = plain if kind == "f32" else USUAL[kind]
    return f"v_mfma_{table.get(kind, usual)}"


def sum_of(c: str) -> str:
    return "f32" if c == "f16" else c


def disassembly(blob: bytes) -> str:
    command = [llvm_tool("llvm-objdump") or "llvm-objdump", "-d", "--no-show-raw-insn", "-"]
    done = subprocess.run(command, input=blob, capture_output=True, check=True, timeout=60)
    return done.stdout.decode()


def matrix_code(blob: bytes) -> set[str]:
    """The mnemonics of matrix instructions."""
    return set(re.findall(r"v_(?:wmma|mfma)\S*", disassembly(blob)))


@pytest.mark.parametrize("arch", PROCESSORS)
def test_products_are_instructions(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    for n, kinds in enumerate(KINDS if arch in WITH else SOME):
        case = make_product(rng, kinds, LAYOUTS[n % 4], lanes(arch), bool(n % 2))
        found = matrix_code(compiled(case.kernel, arch)[0])
        wanted = instruction(arch, *kinds[:3])
        assert found == ({wanted} if wanted else set()), kinds


@pytest.mark.parametrize("arch", WITH)
def test_products(arch: str, rng: np.random.Generator, require: Callable[..., None]) -> None:
    require("llvm-objdump")
    for case in cases(rng, lanes(arch)):
        Emulated(case.kernel, arch).run(case.args, (1, 1, 1), rng)
        assert not case.wrong(case.args[-1]), case.kernel.constexprs


@pytest.mark.parametrize("arch", WITH)
def test_attention(arch: str, rng: np.random.Generator, require: Callable[..., None]) -> None:
    require("llvm-objdump")
    case = attention_case(rng, 48, lanes(arch))
    run = Emulated(case.kernel, arch)
    run.run(case.args, (3, 1, 1), rng)
    assert not case.wrong(case.args[3])
    assert run.manifest.facts["lds_bytes"] == 0  # weights stay in registers
    assert run.manifest.facts["vgpr_spills"] == 0


@pytest.mark.parametrize("arch", WITH)
def test_swizzled_rows(arch: str, rng: np.random.Generator, require: Callable[..., None]) -> None:
    require("llvm-objdump")
    for t, checks in (("bf16", False), ("u8", True)):
        case, read = swizzled_case(rng, t, lanes(arch))
        faults = Emulated(case.kernel, arch, checks).run(case.args, (1, 1, 1), rng)
        assert not faults
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


@pytest.mark.parametrize("arch", ["gfx908", "gfx90a", "gfx950"])  # others ship it
def test_a_whole_matrix_product(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    family = FAMILIES[0]
    t, out = ("f16", "f16") if arch == "gfx908" else ("bf16", "f32")
    kernel = family.kernel.trace("test", T=t, OUT=out, SUBGROUP=64)
    judge(Emulated(kernel, arch), kernel, rng)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_waves_of_64_and_products_of_f32_are_plain_code(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    for kinds, size in ((KINDS[0], 64), (("f32", "f32", "f32", 8), 32)):
        case = make_product(rng, kinds, ("row", "row"), size, True)
        run = Emulated(case.kernel, arch)
        run.run(case.args, (1, 1, 1), rng)
        assert not case.wrong(case.args[-1])
        assert not matrix_code(compiled(case.kernel, arch)[0])


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_halves_are_loaded_where_they_belong(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    case = make_product(rng, KINDS[0], ("row", "row"), 32, True)
    text = disassembly(compiled(case.kernel, arch)[0])
    found = re.findall(r"ds_load_u16\w*", text)
    assert found.count("ds_load_u16_d16_hi") == len(found) // 2 > 0


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_neighbours_of_a_long_kernel_share_an_address(
    arch: str, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    kernel = FAMILIES[0].kernel.trace("test", T="f16", OUT="f16", SUBGROUP=lanes(arch))
    text = disassembly(compiled(kernel, arch)[0])
    found = re.findall(r"ds_(?:load|read)_u16\w* v\d+, (v\d+)", text)
    assert len(found) >= 32
    assert len(set(found)) <= 4  # of both parts that multiply


def small(rng: np.random.Generator, size: int) -> Product:
    """A product of f16 whose a holds denormals alone, which are not small beside its sum."""
    case = make_product(rng, ("f16", "f16", "f32", 16), ("row", "row"), size, False)
    bits = rng.integers(1, 1024, 16 * 32).astype(np.uint16)
    a = bits.view(np.float16)
    b, c = case.args[1], np.zeros(512, np.float32)
    x, y = a.astype(np.float64).reshape(16, 32), b.astype(np.float64).reshape(32, 16)
    z = np.zeros((2, 16, 16))
    value, allowed = np.broadcast_to(x @ y, z.shape), tolerance(x, y, z, "f16", "f32")
    return replace(case, args=[a, b, c], expected=value.reshape(-1), tolerance=allowed.reshape(-1))


@pytest.mark.parametrize("arch", WITH)
def test_denormals_of_f16_count(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    case = small(rng, lanes(arch))
    Emulated(case.kernel, arch).run(case.args, (1, 1, 1), rng)
    assert not case.wrong(case.args[2])


def test_gfx90a_takes_them_for_zero_where_that_is_fast(
    rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    case = small(rng, 64)
    kernel = replace(case.kernel, fast=(*case.kernel.fast, "approximate"))
    run = Emulated(kernel, "gfx90a")
    run.run(case.args, (1, 1, 1), rng)
    assert not case.args[2].any()
    assert matrix_code(compiled(kernel, "gfx90a")[0]) == {"v_mfma_f32_16x16x16f16"}


def test_f32_is_rounded_where_the_hardware_may_cut(
    rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    case = make_product(rng, ("f32", "f32", "f32", 8), ("row", "row"), 64, False)
    a, b = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    # One product for each sum, of operands that lie just below what eleven bits hold.
    a[:, 0] = b[0] = np.float32(2 - 2.0**-23)
    args = [a.reshape(-1), b.reshape(-1), np.zeros(512, np.float32)]
    Emulated(case.kernel, "gfx942").run(args, (1, 1, 1), rng)
    assert (args[2] == 4).all()
    odd = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
    a[:4, 0], b[0] = odd, 1
    Emulated(case.kernel, "gfx942").run(args, (1, 1, 1), rng)
    sums = args[2].reshape(2, 16, 16)
    assert np.isnan(sums[:, :2]).all()
    assert (sums[:, 2] == np.inf).all()
    assert (sums[:, 3] == -np.inf).all()
