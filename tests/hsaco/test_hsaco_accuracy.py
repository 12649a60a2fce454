"""Functions keep the bounds of the op table, emulated: whatever the hardware's own functions give
within the error that AMD states."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from every_op import Case, kernel_of
from gristmill.backends.compile import Options
from gristmill.backends.hsaco import fast
from gristmill.backends.hsaco.emit import find_arch, prepare, write
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES
from hsaco_tools import BASELINES, Emulated, compiled
from kernel_text import kernel
from maths_references import (
    BINARY,
    UNARY,
    bound,
    single_reference,
    special_arguments,
    swept_arguments,
    ulp_error,
)
from need import llvm_tool

F32 = DTYPES["f32"]
FEW = 3000
WORDS = {
    "exp": "exp2", "exp2": "exp2", "log": "log", "log2": "log", "log10": "log", "sin": "sin",
    "cos": "cos", "rsqrt": "rsq",
}  # fmt: skip


@pytest.fixture(autouse=True)
def disassembler(require: Callable[..., None]) -> None:
    require("llvm-objdump")


def arguments(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """f32 arguments, in whole workgroups."""
    found = [
        np.concatenate((special_arguments(np.float32), swept_arguments(np.float32, FEW, rng)))
        for _ in range(count)
    ]
    size = len(found[0]) // 64 * 64
    return [rng.permutation(a)[:size] if n else a[:size] for n, a in enumerate(found)]


def computed(
    wanted: list[Case], args: list[np.ndarray], arch: str, rng: np.random.Generator
) -> list[np.ndarray]:
    size = len(args[0])
    inputs = [*args, *([np.zeros(size, np.float32)] * (3 - len(args))), np.zeros(size, bool)]
    results = [np.zeros(size, np.float32) for _ in wanted]
    run = Emulated(kernel_of(F32, wanted, False), arch)
    run.run([*inputs, *results], (size // 64, 1, 1), rng)
    return results


def check(ops: tuple[str, ...], arch: str, rng: np.random.Generator) -> None:
    arity = 2 if ops[0] in BINARY else 1
    args = arguments(rng, arity)
    wanted: list[Case] = [(op, tuple(range(arity)), F32) for op in ops]
    for op, got in zip(ops, computed(wanted, args, arch, rng), strict=True):
        error = ulp_error(got, single_reference(op, *args), np.float32)
        worst = int(np.argmax(error))
        shown = ", ".join(repr(float(a[worst])) for a in args)
        assert error[worst] <= bound(op, np.float32), f"{op}({shown}) is {got[worst]!r}"


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("at", range(0, len(UNARY), 5))
def test_functions_keep_their_bounds(at: int, arch: str, rng: np.random.Generator) -> None:
    check(UNARY[at : at + 5], arch, rng)


@pytest.mark.parametrize("arch", BASELINES)
def test_functions_of_two_arguments_keep_their_bounds(arch: str, rng: np.random.Generator) -> None:
    check(BINARY, arch, rng)


# Approximate functions


def applied(name: str, t: str, header: str) -> Kernel:
    body = f"""
    %1 = global_id {{dim=0}} : i32
    %2 = load %0, %1 : {t}
    %3 = {name} %2 : {t}
    store %0, %1, %3
    return"""
    return kernel(f"x: {t} buffer readwrite", body, header=header, workgroup="64 1 1")


def own(k: Kernel) -> set[str]:
    """The hardware's functions that a kernel calls."""
    arch = find_arch(k, "gfx1100")
    text = write(prepare(k, Options(), arch), arch)
    return set(re.findall(r"declare float @llvm\.amdgcn\.(\w+)", text)) - {"fract"}


CALLED = {
    "exp": "exp_f32",
    "exp2": "exp_f32",
    "log2": "log_f32",
    "sin": "sin_f32",
    "cos": "cos_f32",
}


@pytest.mark.parametrize(
    ("name", "header"),
    [*((name, "fast approximate") for name in CALLED), ("exp", ""), ("exp2", ""), ("log2", "")],
)
def test_a_function_of_a_constant_is_left_to_the_device(name: str, header: str) -> None:
    """LLVM would compute it by the C library of the machine that compiles."""
    body = f"""
    %1 = global_id {{dim=0}} : i32
    %2 = const 1.5 : f32
    %3 = {name} %2 : f32
    store %0, %1, %3
    return"""
    k = kernel("x: f32 buffer readwrite", body, header=header, workgroup="64 1 1")
    command = [llvm_tool("llvm-objdump") or "llvm-objdump", "-d", "--no-show-raw-insn", "-"]
    blob, _ = compiled(k, "gfx1100")
    text = subprocess.run(command, input=blob, capture_output=True, check=True).stdout.decode()
    assert f"v_{CALLED[name]}" in text


@pytest.mark.parametrize("name", WORDS)
def test_a_function_is_approximate_by_declaration_only(name: str) -> None:
    assert own(applied(name, "f32", "")) == set()
    assert own(applied(name, "f32", "fast approximate")) == {WORDS[name]}
    assert own(applied(name, "f64", "fast approximate")) == set()


@pytest.mark.parametrize("name", sorted(fast.NATIVE))
def test_what_is_native_for_all_kernels_handles_denormals(name: str) -> None:
    arch = find_arch(applied(name, "f32", ""), "gfx1100")
    text = write(prepare(applied(name, "f32", ""), Options(), arch), arch)
    assert f"@llvm.{name}.f32" in text


# Over an interval: the instruction's ulp, half an ulp of each product around it, and what rounding
# the factor costs, carried through to the result.
NEAR = {
    "exp2": (-100, 100, 2e-7, "relative"),
    "exp": (-50, 50, 5e-6, "relative"),
    "log2": (0.01, 1e6, 2e-6, "absolute"),
    "log": (0.01, 1e6, 2.4e-6, "absolute"),
    "log10": (0.01, 1e6, 1.2e-6, "absolute"),
    "sin": (-3, 3, 1e-6, "absolute"),
    "cos": (-3, 3, 1e-6, "absolute"),
    "rsqrt": (0.01, 1e6, 2e-7, "relative"),
}


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("name", NEAR)
def test_approximate_functions_are_near(name: str, arch: str, rng: np.random.Generator) -> None:
    low, high, limit, kind = NEAR[name]
    x = rng.uniform(low, high, 1024).astype(np.float32)
    y = x.copy()
    Emulated(applied(name, "f32", "fast approximate"), arch).run([y], (16, 1, 1), rng)
    want = single_reference(name, x).high
    error = np.abs(y - want) / (np.abs(want) if kind == "relative" else 1)
    assert error.max() <= limit, x[error.argmax()]


def test_denormals_of_f16_are_not_flushed(rng: np.random.Generator) -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : f16
    %3 = add %2, %2 : f16
    store %0, %1, %3
    return"""
    k = replace(kernel("x: f16 buffer readwrite", body, "64 1 1"), fast=("approximate",))
    x = np.arange(64).astype(np.uint16).view(np.float16)
    y = x.copy()
    Emulated(k, "gfx1100").run([y], (1, 1, 1), rng)
    assert (y == x + x).all()
