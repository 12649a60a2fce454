"""Approximate functions of the hardware: where a kernel declares them, and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.ptx import fast
from gristmill.ir.core import Kernel
from kernel_text import kernel
from ptx_model.host import Model
from ptx_tools import assembled, ptx

WORDS = {
    "exp": "ex2", "exp2": "ex2", "log": "lg2", "log2": "lg2", "log10": "lg2", "sin": "sin",
    "cos": "cos", "rsqrt": "rsqrt", "div": "div",
}  # fmt: skip


def applied(name: str, t: str, header: str) -> Kernel:
    operands = "%2, %2" if name == "div" else "%2"
    body = f"""
    %1 = global_id {{dim=0}} : i32
    %2 = load %0, %1 : {t}
    %3 = {name} {operands} : {t}
    store %0, %1, %3
    return"""
    return kernel(f"x: {t} buffer readwrite", body, header=header)


def approximate(text: str) -> set[str]:
    return set(re.findall(r"(\w+)\.approx", text))


@pytest.mark.parametrize("name", WORDS)
def test_a_function_is_approximate_by_declaration_only(name: str) -> None:
    assert approximate(ptx(applied(name, "f32", ""))) == set()
    assert approximate(ptx(applied(name, "f32", "fast approximate"))) == {WORDS[name]}


@pytest.mark.parametrize("name", sorted(fast.FUNCTIONS))
def test_a_declaration_leaves_f64_exact(name: str) -> None:
    assert WORDS[name] not in approximate(ptx(applied(name, "f64", "fast approximate")))


@pytest.mark.parametrize("t", ["f64", "f16"])
def test_rsqrt_of_another_type_is_not_the_function_of_f32(t: str) -> None:
    text = ptx(applied("rsqrt", t, "fast approximate"))
    assert "rsqrt.approx.ftz.f32" not in text


@pytest.mark.parametrize("name", ["exp", "log", "sin"])
def test_f16_goes_through_the_function_of_f32(name: str) -> None:
    assert f"{WORDS[name]}.approx.ftz.f32" in ptx(applied(name, "f16", "fast approximate"))


HALVES = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : f16
    %4 = mul %2, %2 : f16
    %5 = sub %2, %4 : f16
    %6 = add %5, %5 : f16
    %7 = neg %2 : f16
    %8 = fma %2, %7, %6 : f16
    %9 = lt %8, %2 : bool
    %10 = select %9, %8, %2 : f16
    store %0, %1, %10
    return"""


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_denormals_of_f16_are_not_flushed(name: str) -> None:
    k = kernel("x: f16 buffer readwrite", HALVES, header="fast approximate")
    text = ptx(k, name)
    assert ".ftz.f16" not in text
    assert "fma.rn.f16 " in text
    assembled(text, name)


def test_denormals_of_f16_on_the_model(require: Callable[..., None]) -> None:
    require("gcc")
    k = kernel("x: f16 buffer readwrite", HALVES, header="fast approximate")
    x = np.arange(1, 33).astype(np.uint16).view(np.float16) * np.float16(32)
    y = x.copy()
    Model(k).run([y], (1, 1, 1))
    twice = (x - x * x) + (x - x * x)
    fused = (twice.astype(np.float64) - x.astype(np.float64) ** 2).astype(np.float16)
    assert (y == np.where(fused < x, fused, x)).all()


def test_each_lane_of_a_vector_is_computed() -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 {lanes=4} : f32x4
    %3 = exp %2 : f32x4
    store %0, %1, %3
    return"""
    text = ptx(kernel("x: f32 buffer readwrite", body, header="fast approximate"))
    assert text.count("ex2.approx") == 4
