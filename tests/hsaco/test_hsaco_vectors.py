"""Vectors stay whole from where they are loaded to where they are stored, multiplied or joined."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from fragment_kernels import attention_case
from gristmill.backends.compile import Options
from gristmill.backends.hsaco.emit import find_arch, prepare, write
from gristmill.ir.core import Kernel
from hsaco_tools import BASELINES, Emulated, shipped
from kernel_text import kernel

TWO = "x: {t} buffer read, y: {t} buffer write"
# A branch that some lanes take: the vector is taken apart in it, behind it, or nowhere.
JOINED = """
%2 = local_linear_id : i32
%3 = const 40 : i32
%4 = const 0 : {t}
%5 = lt %2, %3 : bool
%6 = if %5 : {t}x8 {{
  %7 = load %0, %2 {{lanes=8}} : {t}x8
  yield %7
}} else {{
  %8 = splat %4 : {t}x8
  yield %8
}}
store %1, %2, %6
return"""


def text_of(k: Kernel, arch: str = "gfx1100") -> str:
    chosen = find_arch(k, arch)
    return write(prepare(k, Options(), chosen), chosen)


def joined(t: str) -> Kernel:
    return kernel(TWO.format(t=t), JOINED.format(t=t), "64 1 1")


def test_a_vector_that_is_copied_is_not_taken_apart() -> None:
    body = """
    %2 = local_linear_id : i32
    %3 = load %0, %2 {lanes=4} : f32x4
    store %1, %2, %3
    return"""
    text = text_of(kernel(TWO.format(t="f32"), body))
    assert "load <4 x float>" in text
    assert "store <4 x float> %" in text
    assert "extractelement" not in text
    assert "insertelement" not in text


@pytest.mark.parametrize("t", ["u8", "f16", "f32"])
def test_a_choice_of_vectors_is_one_of_words(t: str) -> None:
    body = f"""
    %2 = local_linear_id : i32
    %3 = load %0, %2 {{lanes=8}} : {t}x8
    %4 = const 1 : {t}
    %5 = splat %4 : {t}x8
    %6 = const 9 : i32
    %7 = lt %2, %6 : bool
    %8 = select %7, %3, %5 : {t}x8
    store %1, %2, %8
    return"""
    text = text_of(kernel(TWO.format(t=t), body))
    words = {"u8": 2, "f16": 4, "f32": 8}[t]
    assert len(re.findall(rf" = select i1 %\d+, <{words} x i32>", text)) == 1
    assert "extractelement" not in text
    assert "insertelement" not in text


def test_a_vector_of_constants_is_a_constant() -> None:
    body = """
    %1 = local_linear_id : i32
    %2 = const 7 : i16
    %3 = splat %2 : i16x4
    store %0, %1, %3
    return"""
    text = text_of(kernel("x: i16 buffer write", body))
    assert "store <4 x i16> <i16 7, i16 7, i16 7, i16 7>" in text


@pytest.mark.parametrize(("t", "phi"), [("f16", "<8 x i16>"), ("u8", "<2 x i32>")])
def test_a_vector_that_is_stored_behind_a_join_is_one_phi(t: str, phi: str) -> None:
    """Of whose operands LLVM knows no constant, else it would take the phi apart."""
    (line,) = [line for line in text_of(joined(t)).splitlines() if f"phi {phi}" in line]
    assert re.fullmatch(rf"  %\d+ = phi {phi} (\[ %\d+, %\w+ \](, )?){{2}}", line)


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("t", ["f16", "u8", "f32"])
def test_what_is_joined_is_right(
    t: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    x = rng.integers(0, 100, 512).astype({"f16": "f2", "u8": "u1", "f32": "f4"}[t])
    y = np.ones_like(x)
    Emulated(joined(t), arch).run([x, y], (1, 1, 1), rng)
    x[320:] = 0
    assert (y == x).all()


@pytest.mark.parametrize("arch", BASELINES)
def test_a_vector_taken_apart_in_a_branch_is_whole_behind_it(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    """A component that the branch took is not at hand for those who passed by."""
    body = """
    %2 = local_linear_id : i32
    %3 = load %0, %2 {lanes=4} : i32x4
    store %1, %2, %3
    %4 = const 9 : i32
    %5 = lt %2, %4 : bool
    if %5 {
      %7 = extract %3 {lane=1} : i32
      store %1, %2, %7
      yield
    } else {
      yield
    }
    %9 = extract %3 {lane=2} : i32
    %10 = const 31 : i32
    %11 = add %2, %10 : i32
    store %1, %11, %9
    return"""
    require("llvm-objdump")
    x = rng.integers(-99, 99, 128).astype(np.int32)
    y = np.zeros(128, np.int32)
    k = kernel("x: i32 buffer read, y: i32 buffer write", body)
    Emulated(k, arch).run([x, y], (1, 1, 1), rng)
    assert (y[31:63] == x[2::4]).all()


def packed(op: str) -> Kernel:
    body = f"""
    %2 = local_linear_id : i32
    %3 = load %0, %2 {{lanes=4}} : f16x4
    %4 = load %1, %2 {{lanes=4}} : f16x4
    %5 = {op}
    store %1, %2, %5
    return"""
    return kernel("x: f16 buffer read, y: f16 buffer readwrite", body)


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize(
    ("op", "word"),
    [
        ("add %3, %4 : f16x4", "fadd"),
        ("sub %3, %4 : f16x4", "fsub"),
        ("mul %3, %4 : f16x4", "fmul"),
        ("fma %3, %4, %3 : f16x4", "fma"),
    ],
)
def test_f16_is_computed_two_at_a_time(
    op: str, word: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    k = packed(op)
    assert re.search(rf"{word}\S* ?(<4 x half> %|\(<4 x half>)", text_of(k, arch))
    x, y = (rng.normal(size=128).astype(np.float16) for _ in range(2))
    wide, other = x.astype(np.float64), y.astype(np.float64)
    expected = {"fadd": wide + other, "fsub": wide - other, "fmul": wide * other}
    want = expected.get(word, wide * other + wide).astype(np.float16)
    Emulated(k, arch).run([x, y], (1, 1, 1), rng)
    assert (y == want).all()


def test_indexes_of_lds_that_differ_by_constants_share_an_address(
    rng: np.random.Generator, require: Callable[..., None]
) -> None:
    """In long kernels, which LLVM's passes do not see: none of the sums is computed, and what they
    have in common may be negative."""
    loads = [f"%{n + 60} = const {n} : i32\n%{n + 70} = add %6, %{n + 60} : i32" for n in (5, 6, 7)]
    loads += [f"%{n + 80} = load %2, %{n + 70} : i32" for n in (5, 6, 7)]
    filler = ["store %1, %3, %3"] * 500
    lines = (
        '%2 = alloc {name="a"} : workgroup<i32,128>',
        "%3 = local_linear_id : i32",
        "store %2, %3, %3",
        "barrier",
        "%6 = load %0, %3 : i32",
        *loads,
        "%90 = add %85, %86 : i32",
        "%91 = mul %90, %87 : i32",
        *filler,
        "store %1, %3, %91",
        "return",
    )
    k = kernel("x: i32 buffer read, y: i32 buffer write", "\n".join(lines))
    for arch in BASELINES:
        text = text_of(k, arch)
        (base,) = re.findall(r"(%\d+) = load i32, ptr addrspace\(1\)", text)
        assert not re.search(rf"add i32 {base},", text)
        x = rng.integers(-5, 24, 32).astype(np.int32)
        y = np.zeros(32, np.int32)
        require("llvm-objdump")
        Emulated(k, arch).run([x, y], (1, 1, 1), rng)
        assert (y == (2 * x + 11) * (x + 7)).all()


def test_a_sum_of_mfma_is_carried_whole_but_where_the_next_turn_takes_it_apart(
    rng: np.random.Generator,
) -> None:
    """LLVM would read it too soon behind its product."""
    for arch in ("gfx908", "gfx90a", "gfx942"):
        assert "phi <4 x float>" not in text_of(attention_case(rng, 48, 64).kernel, arch)
    found = [k for _, k in shipped("hsaco-gfx942") if k.name == "matmul_fragments"]
    assert all("phi <4 x float>" in text_of(k, "gfx942") for k in found)
