"""Atomics, fences, faults and subgroup ops as PTX: the instruction, its scope, its space."""

from __future__ import annotations

import re

import pytest

from gristmill.ir.core import Kernel
from kernel_text import kernel
from ptx_tools import compiled, ptx


def atomic(t: str, kind: str, shared: bool) -> Kernel:
    memory = "%2" if shared else "%0"
    body = f"""
    %1 = local_linear_id : i32
    %2 = alloc {{name="a"}} : workgroup<{t},32>
    %3 = load %0, %1 : {t}
    store %2, %1, %3
    barrier
    %4 = atomic {memory}, %1, %3 {{kind="{kind}"}} : {t}
    store %0, %1, %4
    return"""
    return kernel(f"x: {t} buffer readwrite", body)


@pytest.mark.parametrize(("t", "kind", "word"), [
    ("i32", "add", "add.u32"), ("u32", "min", "min.u32"), ("i32", "max", "max.s32"),
    ("i64", "add", "add.u64"), ("u64", "max", "max.u64"), ("i64", "xor", "xor.b64"),
    ("f32", "add", "add.f32"), ("f64", "add", "add.f64"), ("i32", "exchange", "exch.b32"),
    ("f32", "exchange", "exch.b32"), ("f32", "min", "cas.b32"), ("f64", "max", "cas.b64"),
])  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["sm_75", "sm_90"])
def test_atomics(t: str, kind: str, word: str, shared: bool, name: str) -> None:
    text = ptx(atomic(t, kind, shared), name)
    (found,) = set(re.findall(r"atom\.\S+", text))
    assert "shared" in found if shared else "global" in found
    assert found.endswith(word)
    assert not re.search(r"\.(acquire|release|acq_rel|sys)", found)
    assert shared or not re.search(r"\.(cta|cluster)\b", found)  # no scope is that of the device


READ_BY_ONE_ARM = """
    %2 = local_linear_id : i32
    %3 = alloc {name="a"} : workgroup<i32,256>
    store %3, %2, %1
    barrier
    %6 = const 5 : i32
    %7 = xor %2, %6 : i32
    %8 = load %3, %7 : i32
    fence {scope="workgroup", order="release"}
    %4 = const 0 : i32
    %5 = ne %1, %4 : bool
    if %5 {
      store %0, %2, %8
      yield
    } else {
      yield
    }
    store %3, %2, %2
    return"""


def test_a_load_does_not_move_past_a_fence_to_the_arm_that_reads_it() -> None:
    text = ptx(kernel("x: i32 buffer readwrite, n: i32 scalar", READ_BY_ONE_ARM))
    order = re.findall(r"bar\.sync|fence\.\S+?;|ld\.shared", text)
    assert order == ["bar.sync", "ld.shared", "fence.acq_rel.cta;"]


def test_a_fence_has_its_scope() -> None:
    body = """
    %1 = local_linear_id : i32
    %2 = load %0, %1 : f32
    fence {scope="workgroup", order="acquire"}
    store %0, %1, %2
    fence {scope="device", order="release"}
    store %0, %1, %2
    return"""
    text = ptx(kernel("x: f32 buffer readwrite", body))
    order = re.findall(r"fence\.\S+?;|[ls][dt]\.global", text)
    assert order == [
        "ld.global", "fence.acq_rel.cta;", "st.global", "fence.acq_rel.gpu;", "st.global",
    ]  # fmt: skip


@pytest.mark.parametrize("t", ["i8", "u16", "bool", "f16"])
def test_a_narrow_store_is_one_store(t: str) -> None:
    body = f"""
    %2 = global_id {{dim=0}} : i32
    %3 = load %0, %2 : {t}
    store %1, %2, %3
    return"""
    text = ptx(kernel(f"x: {t} buffer read, y: {t} buffer write", body))
    bits = 16 if t in ("u16", "f16") else 8
    assert re.findall(r"st\.global\S*", text) == [f"st.global.b{bits}"]
    assert "atom" not in text


def test_a_failed_assertion_sets_a_bit_and_goes_on() -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = const 5 : i32
    %3 = lt %1, %2 : bool
    assert %3 {site=0}
    store %0, %1, %1
    return"""
    text, manifest = compiled(kernel("x: i32 buffer write", body, header='site "too far"'))
    assert "trap" not in text
    assert re.findall(r"(?:atom|red)\.global\.or\.b32", text)
    assert text.index(".or.b32") < text.index("st.global")
    assert manifest.sites == ("too far",)


@pytest.mark.parametrize(("t", "kind", "name", "word"), [
    ("i32", "add", "sm_80", "redux.sync.add.s32"), ("u32", "max", "sm_90a", "redux.sync.max.u32"),
    ("i8", "min", "sm_80", "redux.sync.min.s32"), ("i32", "mul", "sm_80", "shfl.sync.bfly"),
    ("i32", "add", "sm_75", "shfl.sync.bfly"), ("f32", "add", "sm_80", "shfl.sync.bfly"),
    ("i64", "xor", "sm_80", "shfl.sync.bfly"),
])  # fmt: skip
def test_reductions(t: str, kind: str, name: str, word: str) -> None:
    body = f"""
    %1 = global_id {{dim=0}} : i32
    %2 = load %0, %1 : {t}
    %3 = subgroup_reduce %2 {{kind="{kind}"}} : {t}
    store %0, %1, %3
    return"""
    text = ptx(kernel(f"x: {t} buffer readwrite", body, header="subgroup 32"), name)
    steps = {"redux": 1, "shfl": 10 if t == "i64" else 5}[word.partition(".")[0]]
    assert text.count(word) == steps


def test_a_shuffle_by_a_constant_is_one_instruction() -> None:
    for name, word in (("up", "up.b32"), ("down", "down.b32"), ("xor", "bfly.b32")):
        body = f"""
        %1 = global_id {{dim=0}} : i32
        %2 = load %0, %1 : f32
        %3 = const 3 : i32
        %4 = subgroup_shuffle_{name} %2, %3 : f32
        store %0, %1, %4
        return"""
        text = ptx(kernel("x: f32 buffer readwrite", body, header="subgroup 32"))
        assert re.findall(r"shfl\.sync\.(\S+)", text) == [word]
