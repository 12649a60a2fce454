"""Properties of the PTX text: what is promised of numerics, caches, labels and sizes."""

from __future__ import annotations

import re

import pytest

from gristmill.backends.compile import CompileError, Options, compile_kernel, compile_traced
from gristmill.backends.llvm import toolchain
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import validate, write
from gristmill.backends.steps import compile_step
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy
from gristmill.kernels.softmax import softmax
from kernel_text import kernel
from ptx_tools import assembled, compiled, ptx

PRODUCT_AND_SUM = """
    %2 = global_id {{dim=0}} : i32
    %3 = load %0, %2 : {t}
    %4 = load %1, %2 : {t}
    %5 = mul %3, %4 : {t}
    %6 = add %5, %3 : {t}
    store %1, %2, %6
    return"""


def fused(t: str, header: str = "") -> Kernel:
    params = f"x: {t} buffer read, y: {t} buffer readwrite"
    return kernel(params, PRODUCT_AND_SUM.format(t=t), header=header)


# The lowest PTX version that knows the architecture, as NVIDIA's documentation of PTX lists them.
VERSIONS = {
    "sm_75": "6.3", "sm_80": "7.0", "sm_86": "7.1", "sm_89": "7.8", "sm_90": "7.8", "sm_90a": "8.0",
    "sm_100": "8.6", "sm_120": "8.7",
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHS)
def test_version_and_target_are_the_lowest_that_serve(name: str) -> None:
    text, manifest = compiled(fused("f32"), name)
    assert f".version {VERSIONS[name]}\n.target {name}\n" in text
    assert manifest.facts["ptx_isa"] == VERSIONS[name]
    assert manifest.entry == "test"


@pytest.mark.parametrize("lanes", ["", "x4"])
@pytest.mark.parametrize("written", ["abs", "select"])
def test_no_driver_takes_the_absolute_value_of_16_bits_to_be_above_0(
    written: str, lanes: str, arch: str
) -> None:
    t, of = f"i16{lanes}", f"{{lanes={lanes[1:]}}} " if lanes else ""
    zero = f"    %4 = const 0 : i16\n    %5 = splat %4 : {t}\n" if lanes else ""
    zero = zero or "    %5 = const 0 : i16\n"
    forms = {
        "abs": f"%6 = abs %3 : {t}",
        "select": f"%7 = sub %5, %3 : {t}\n    %8 = lt %3, %5 : bool{lanes}\n"
        f"    %6 = select %8, %7, %3 : {t}",
    }
    text = ptx(
        kernel(
            "x: i16 buffer readwrite",
            f"\n    %2 = global_id {{dim=0}} : i32\n    %3 = load %0, %2 {of}: {t}\n{zero}"
            f"    {forms[written]}\n    store %0, %2, %6\n    return",
        ),
        arch,
    )
    assert "abs.s16" not in text
    assert text.count("abs.s32") == (int(lanes[1:]) if lanes else 1)
    assembled(text, arch)


@pytest.mark.parametrize("t", ["f32", "f64", "f16"])
def test_products_and_sums_stay_apart(t: str) -> None:
    """Without `.rn` the assembler may fuse them; with it, it must not."""
    text = ptx(fused(t))
    assert f"mul.rn.{t}" in text
    assert f"add.rn.{t}" in text
    assert "fma" not in text


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_a_kernel_that_declares_contraction_is_fused(t: str) -> None:
    assert f"fma.rn.{t}" in ptx(fused(t, "fast contract"))


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90a"])
def test_denormals_are_kept_and_division_is_rounded(name: str) -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : f32
    %3 = sqrt %2 : f32
    %4 = div %3, %2 : f32
    %5 = convert %4 : f16
    %6 = mul %5, %5 : f16
    %7 = convert %6 : f32
    %8 = exp %7 : f32
    store %0, %1, %8
    return"""
    text = ptx(kernel("x: f32 buffer readwrite", body), name)
    assert ".ftz" not in text
    assert ".approx" not in text
    assert "sqrt.rn.f32" in text
    assert "div.rn.f32" in text


def test_only_buffers_that_nothing_writes_go_through_the_read_only_cache() -> None:
    body = """
    %3 = global_id {dim=0} : i32
    %4 = load %0, %3 : f32
    %5 = load %1, %3 : f32
    %6 = load %2, %3 : f32
    %7 = add %4, %5 : f32
    %8 = add %7, %6 : f32
    store %2, %3, %8
    return"""
    params = "x: f32 buffer read, a: f32 buffer read{}, y: f32 buffer readwrite{}"
    plain = ptx(kernel(params.format("", ""), body))
    assert len(re.findall(r"ld\.global\.nc\.b32", plain)) == 2
    alias = ptx(kernel(params.format(" may_alias", " may_alias"), body))
    assert len(re.findall(r"ld\.global\.nc\.b32", alias)) == 1
    assert len(re.findall(r"ld\.global\.b32", alias)) == 2


@pytest.mark.parametrize("between", ["barrier", 'fence {scope="device", order="acquire"}', ""])
def test_llvm_is_told_that_others_write_a_buffer(between: str) -> None:
    """Memory behind a noalias pointer would count as untouched by a barrier."""
    body = f"""
    %2 = local_linear_id : i32
    %3 = load %0, %2 : f32
    {between}
    store %1, %2, %3
    return"""
    k = kernel("x: f32 buffer read, y: f32 buffer readwrite", body)
    head = write(k, ARCHS["sm_80"]).partition("{")[0]
    x, y = re.findall(r"ptr addrspace\(1\) (.*?)%", head)
    assert x == "noalias readonly align 16 "
    assert y == ("align 16 " if between else "noalias align 16 ")


def test_a_buffer_is_read_again_behind_a_barrier() -> None:
    """Another invocation may have written it: LLVM must not keep the first value."""
    body = """
    %1 = local_linear_id : i32
    %2 = const 31 : i32
    %3 = sub %2, %1 : i32
    %4 = load %0, %1 : f32
    %5 = load %0, %3 : f32
    barrier
    store %0, %3, %4
    barrier
    %6 = load %0, %1 : f32
    %7 = add %6, %5 : f32
    store %0, %1, %7
    return"""
    text = ptx(kernel("x: f32 buffer readwrite", body))
    order = re.findall(r"ld\.global|st\.global|bar\.sync", text)
    assert order == [
        "ld.global", "ld.global", "bar.sync", "st.global", "bar.sync", "ld.global", "st.global",
    ]  # fmt: skip


@pytest.mark.parametrize(("t", "lanes", "word"), [
    ("f32", 4, "v4.b32"), ("f32", 2, "v2.b32"), ("f16", 8, "v4.b32"), ("u8", 8, "v2.b32"),
    ("f64", 2, "v2.b64"), ("bf16", 4, "v2.b32"),
])  # fmt: skip
def test_a_vector_is_one_access(t: str, lanes: int, word: str) -> None:
    body = f"""
    %2 = global_id {{dim=0}} : i32
    %3 = load %0, %2 {{lanes={lanes}}} : {t}x{lanes}
    store %1, %2, %3
    return"""
    text = ptx(kernel(f"x: {t} buffer read, y: {t} buffer write", body))
    assert re.findall(r"ld\.global\S*", text) == [f"ld.global.nc.{word}"]
    assert re.findall(r"st\.global\S*", text) == [f"st.global.{word}"]


@pytest.mark.parametrize("t", ["bool", "i8", "u16", "bf16", "f16", "i64", "f64"])
def test_parameters_lie_as_the_layout_says(t: str) -> None:
    k = saxpy.trace("x", T=t) if t != "bool" else kernel(
        "a: bool scalar, x: bool buffer readwrite",
        "%2 = global_id {dim=0} : i32\nstore %1, %2, %0\nreturn",
    )  # fmt: skip
    text, manifest = compiled(k)
    validate(text.encode(), "sm_80", k)
    sizes = [int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", text)]
    at, places = 0, []
    for size in sizes:
        at = -(-at // size) * size
        places.append(at)
        at += size
    layout = abi.gpu_layout(k.params, bool(manifest.sites))
    expected = [*layout.pointers, *layout.scalars, *layout.counts]
    assert places == [*expected, layout.grid, layout.grid + 4, layout.grid + 8]


def test_the_workgroup_is_required() -> None:
    k = kernel("x: f32 buffer readwrite", "return", workgroup="4 8 2")
    assert ".reqntid 4, 8, 2" in ptx(k)


def arrays(count: int) -> Kernel:
    body = f"""
    %1 = alloc {{name="a"}} : workgroup<f32,{count}>
    %2 = alloc {{name="b"}} : workgroup<f32,8>
    %3 = local_linear_id : i32
    %4 = load %0, %3 : f32
    store %1, %3, %4
    %5 = const 0 : i32
    store %2, %5, %4
    barrier
    %6 = load %1, %5 : f32
    %7 = load %2, %5 : f32
    %8 = add %6, %7 : f32
    store %0, %3, %8
    return"""
    return kernel("x: f32 buffer readwrite", body)


def test_workgroup_memory_beyond_48_kib_is_stated_by_the_launch() -> None:
    text, manifest = compiled(arrays(12 << 10))
    assert ".extern .shared" in text
    assert manifest.facts["dynamic_shared_bytes"] == manifest.shared_bytes == (48 << 10) + 32
    text, manifest = compiled(arrays((12 << 10) - 8))
    assert ".extern .shared" not in text
    assert "dynamic_shared_bytes" not in manifest.facts
    assert manifest.shared_bytes == 48 << 10


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (".version 7.0", ".version 7.8", r"\.version is 7\.8"),
        (".target sm_80", ".target sm_90", r"\.target is sm_90"),
        (".visible .entry test", ".visible .entry other", "its entry is other"),
        (".param .u64 test_param_3", ".param .u32 test_param_3", r"are .*4., not .*8."),
        (".reqntid 32, 1, 1", ".reqntid 64, 1, 1", "its directives"),
        ("\tret;", "\tcall (r), sinf, (a);\n\tret;", "calls what it does not define"),
        ("\tret;", "\t@%p1 call.uni (r), sinf, (a);\n\tret;", "calls what it does not define"),
        ("\tret;", "\t{ @!%p1 call sinf; }\n\tret;", "does not define: @!%p1 call sinf"),
        (".visible .entry test", ".visible .entry a() {}\n.visible .entry test", "2 entries"),
    ],
)
def test_a_text_that_is_not_what_its_label_says_is_refused(old: str, new: str, words: str) -> None:
    k = fused("f32")
    text = ptx(k)
    validate(text.encode(), "sm_80", k)
    assert old in text
    with pytest.raises(CompileError, match=words):
        validate(text.replace(old, new).encode(), "sm_80", k)


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (".visible .entry test", ".visible .entry other", "its entry is other"),
        (".param .u64 test_param_3", ".param .u32 test_param_3", r"are .*4., not .*8."),
        (".reqntid 32, 1, 1", ".reqntid 32, 1, 16", "its directives"),
    ],
)
def test_a_build_refuses_a_text_that_is_not_what_its_manifest_says(
    old: str, new: str, words: str, checks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = fused("f32")
    text = ptx(k, checks=checks)
    assert text.count(old) == 1
    monkeypatch.setattr(toolchain, "emit_assembly", lambda *_: text.replace(old, new))
    with pytest.raises(CompileError, match=words):
        compile_step(print_kernel(k), "ptx-sm_80", {"checks": checks}, "")
    monkeypatch.setattr(toolchain, "emit_assembly", lambda *_: text)
    compile_step(print_kernel(k), "ptx-sm_80", {"checks": checks}, "")


def test_a_traced_kernel_compiles_to_the_bytes_of_its_text() -> None:
    made = softmax.trace("f32", SUBGROUP=32, VEC=4, KEEP=2)
    by_text = compile_kernel(print_kernel(made), "ptx-sm_80", Options())
    assert compile_traced(made, "ptx-sm_80", Options()) == by_text
