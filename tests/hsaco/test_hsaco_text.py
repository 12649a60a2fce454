"""What LLVM is given and what comes out: attributes, arguments, fences, atomics, registers."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.backends.compile import CompileError, Options
from gristmill.backends.hsaco import code_object
from gristmill.backends.hsaco.emit import find_arch, prepare, write
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from hsaco_tools import BASELINES, compiled, lanes, shipped
from kernel_text import kernel
from need import llvm_tool

VALUES = "a: i8 scalar, b: f64 scalar, c: bool scalar, d: f16 scalar, e: u32 scalar"
STORE_10 = "store %2, %10, %10"  # what was loaded is used


def text_of(k: Kernel, arch: str = "gfx1100") -> str:
    chosen = find_arch(k, arch)
    return write(prepare(k, Options(), chosen), chosen)


def assembly(blob: bytes) -> str:
    """The instructions of a code object."""
    with tempfile.NamedTemporaryFile(suffix=".hsaco") as file:
        file.write(blob)
        file.flush()
        tool = llvm_tool("llvm-objdump")
        assert tool is not None
        command = [tool, "-d", "--no-show-raw-insn", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("arch", PROCESSORS)
@pytest.mark.parametrize("sited", [False, True])
def test_arguments_lie_where_the_convention_says_and_none_is_hidden(arch: str, sited: bool) -> None:
    body = "%7 = const true : bool\nassert %7 {site=0}\nreturn" if sited else "return"
    params = f"x: f32 buffer read, y: i64 buffer readwrite, {VALUES}"
    k = kernel(params, body, header='site "never"' if sited else "")
    blob, manifest = compiled(k, arch)
    info = code_object.read(blob).kernels[manifest.entry].info
    layout = abi.gpu_layout(k.params, bool(manifest.sites))
    assert tuple((a.offset, a.size) for a in info.arguments) == abi.gpu_places(k.params, layout)
    assert layout.size <= info.kernarg_bytes < layout.size + 8
    assert manifest.facts["kernarg_bytes"] == info.kernarg_bytes
    assert not [a for a in info.arguments if a.kind.startswith("hidden")]


@pytest.mark.parametrize("arch", PROCESSORS)
def test_waves_and_code_objects_are_those_of_the_processor(arch: str) -> None:
    blob, manifest = compiled(kernel("x: f32 buffer read", "return"), arch)
    assert manifest.facts["wavefront"] == lanes(arch)
    assert manifest.facts["code_object"] == (6 if arch.endswith("generic") else 5)
    assert code_object.read(blob).target == arch


@pytest.mark.parametrize("arch", ["gfx1030", "gfx1100", "gfx1201", "gfx12-generic"])
def test_a_kernel_for_subgroups_of_64_has_such_waves(arch: str) -> None:
    k = kernel("x: f32 buffer read", "return", header="subgroup 64")
    assert compiled(k, arch)[1].facts["wavefront"] == 64


@pytest.mark.parametrize(
    "target", ["gfx90a:xnack-", "gfx942:sramecc+:xnack+", "gfx906:sramecc-", "gfx9-generic:xnack+"]
)
def test_settings_of_a_target_id_are_those_of_the_code_object(target: str) -> None:
    assert code_object.read(compiled(kernel("x: f32 buffer read", "return"), target)[0]).target == (
        target
    )


def test_registers_for_the_ids_that_a_kernel_reads_and_no_others() -> None:
    made = text_of(
        kernel(
            "x: i32 buffer write",
            "%1 = local_id {dim=0} : i32\nstore %0, %1, %1\nreturn",
            workgroup="96 1 1",
        )
    )
    head = next(line for line in made.splitlines() if line.startswith("define"))
    assert "amdgpu_kernel void @test(" in head
    absent = set(re.findall(r'"amdgpu-no-([\w-]+)"', head))
    assert {"workitem-id-y", "workitem-id-z", "implicitarg-ptr", "hostcall-ptr"} <= absent
    assert absent.isdisjoint({"workitem-id-x", "dispatch-ptr", "workgroup-id-x"})
    assert '"amdgpu-flat-work-group-size"="96,96"' in head


# Barriers


def two_phases(buffer: str, before: str, after: str) -> Kernel:
    """A barrier between ops on a workgroup array and, where given, on buffers."""
    body = f"""
    %2 = alloc {{name="a"}} : workgroup<i32,64>
    %3 = local_linear_id : i32
    store %2, %3, %3
    {before}
    barrier
    %9 = load %2, %3 : i32
    {after}
    store %1, %3, %9
    return"""
    return kernel(f"x: i32 buffer {buffer}, y: i32 buffer write", body)


@pytest.mark.parametrize(
    ("buffer", "before", "after", "local"),
    [
        ("read", "", "", True),
        ("readwrite", "store %0, %3, %3", f"%10 = load %0, %3 : i32\n{STORE_10}", False),
    ],
)
def test_a_barrier_orders_buffers_where_one_is_shared_across_it(
    buffer: str, before: str, after: str, local: bool
) -> None:
    k = two_phases(buffer, before, after)
    fences = re.findall(r"fence syncscope\(\"workgroup\"\) (\w+)(.*)", text_of(k))
    note = ", !mmra !1" if local else ""
    assert fences == [("release", note), ("acquire", note)]
    assert ("gl0_inv" in assembly(compiled(k, "gfx1100")[0])) == (not local)
    assert ("global_inv" in assembly(compiled(k, "gfx1201")[0])) == (not local)


@pytest.mark.parametrize("scope", ["workgroup", "device"])
def test_a_fence_is_of_its_scope(scope: str) -> None:
    body = f'fence {{order="acq_rel", scope="{scope}"}}\nreturn'
    word = {"workgroup": "workgroup", "device": "agent"}[scope]
    assert f'fence syncscope("{word}") acq_rel\n' in text_of(kernel("x: i32 buffer read", body))


# Atomics


def float_add(dtype: str, where: str) -> Kernel:
    target = "%0" if where == "buffer" else "%2"
    body = f"""
    %1 = local_linear_id : i32
    %2 = alloc {{name="a"}} : workgroup<{dtype},64>
    %3 = const 1 : {dtype}
    store %2, %1, %3
    %4 = atomic {target}, %1, %3 {{kind="add"}} : {dtype}
    %5 = load %2, %1 : {dtype}
    store %0, %1, %5
    return"""
    return kernel(f"x: {dtype} buffer readwrite", body)


NATIVE_F32 = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1103", "gfx1151", "gfx1201")
NATIVE_F64 = ("gfx90a", "gfx942", "gfx950", "gfx9-4-generic")


@pytest.mark.parametrize("arch", PROCESSORS)
def test_floats_are_added_by_the_hardware_that_can(arch: str, require: Callable[..., None]) -> None:
    require("llvm-objdump")
    single = assembly(compiled(float_add("f32", "buffer"), arch)[0])
    without = arch in ("gfx906", "gfx9-generic") or arch.startswith("gfx10")
    assert ("global_atomic_add_f32" in single) == (not without)
    assert ("global_atomic_cmpswap" in single) == without
    double = assembly(compiled(float_add("f64", "buffer"), arch)[0])
    assert ("global_atomic_add_f64" in double) == (arch in NATIVE_F64)
    shared = assembly(compiled(float_add("f32", "workgroup"), arch)[0])
    assert "ds_add_f32" in shared or "ds_add_rtn_f32" in shared


def test_notes_of_an_atomic_update() -> None:
    made = text_of(float_add("f32", "buffer"))
    (line,) = [line for line in made.splitlines() if "atomicrmw" in line]
    assert "fadd ptr addrspace(1)" in line
    assert 'syncscope("agent") monotonic' in line
    for note in ("no.fine.grained.memory", "no.remote.memory", "ignore.denormal.mode"):
        assert f"!amdgpu.{note} !0" in line
    shared = text_of(float_add("f32", "workgroup"))
    (line,) = [line for line in shared.splitlines() if "atomicrmw" in line]
    assert 'syncscope("workgroup") monotonic' in line
    assert "fine.grained" not in line


# Subgroups


def test_what_holds_a_swap_of_halves_in_its_place_stays_in_it_too() -> None:
    """Else a pass that copies a block into two branches would take both along."""
    body = """
    %2 = subgroup_lane : i32
    %3 = load %0, %2 : i32
    %4 = const 32 : i32
    %5 = subgroup_shuffle_xor %3, %4 : i32
    store %1, %2, %5
    return"""
    k = kernel("x: i32 buffer read, y: i32 buffer write", body, header="subgroup 64")
    (held,) = [line for line in text_of(k).splitlines() if " asm " in line]
    assert held.endswith(" convergent")


def test_halves_that_do_not_meet_are_refused_at_the_line() -> None:
    body = """
    %1 = local_linear_id : i32
    %2 = load %0, %1 : i32
    %3 = subgroup_shuffle %2, %2 : i32
    store %0, %1, %3
    return"""
    k = kernel("x: i32 buffer readwrite", body, header="subgroup 64")
    with pytest.raises(CompileError, match="moves no values between the halves") as caught:
        text_of(k, "gfx1030")
    assert caught.value.loc is not None


@pytest.mark.parametrize(("mask", "hidden"), [(1, 2), (7, 2), (8, 2), (15, 2), (16, 0), (31, 0)])
def test_llvm_does_not_know_what_is_exchanged_by_dpp(mask: int, hidden: int) -> None:
    """Of a constant of 64 bits it would lose a word."""
    body = f"""
    %2 = subgroup_lane : i32
    %3 = const 81985529216486895 : i64
    %4 = const {mask} : i32
    %5 = subgroup_shuffle_xor %3, %4 : i64
    store %1, %2, %5
    return"""
    k = kernel("x: i64 buffer read, y: i64 buffer write", body, header="subgroup 32")
    lines = [line for line in text_of(k).splitlines() if " call " in line]
    assert sum(" asm " in line for line in lines) == hidden
    moved = [line for line in lines if "update.dpp" in line]
    assert len(moved) == hidden
    assert all("i32 poison, i32 %" in line for line in moved)


# The artifact


def test_a_kernel_that_llvm_drops_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM drops a kernel whose features its processor has not, and says nothing."""
    from gristmill.backends.hsaco import emit
    from gristmill.backends.hsaco import kernel as module

    k = kernel("x: i32 buffer read", "return")
    broken = module._ATTRIBUTES + ' "target-features"="+wavefrontsize32"'
    monkeypatch.setattr(module, "_ATTRIBUTES", broken)
    with pytest.raises(CompileError, match=r"it holds no kernel, not test|LLVM drops a kernel"):
        emit.emit(k, "gfx942", Options())


@pytest.mark.parametrize("route", ["llc", "clang"])
@pytest.mark.parametrize("arch", [*BASELINES, "gfx90a:sramecc+:xnack-"])
def test_equal_inputs_give_equal_bytes_by_every_way_to_llvm(
    arch: str, route: str, require: Callable[..., None]
) -> None:
    require(route)
    kernels = [k for _, k in shipped(f"hsaco-{arch.partition(':')[0]}")]
    wide = kernel("x: f32 buffer read", "return", header="subgroup 64")
    for k in (*kernels[::20], float_add("f32", "workgroup"), wide):
        first, manifest = compiled(k, arch)
        assert (first, manifest) == compiled(k, arch)
        assert compiled(k, arch, llvm=route)[0] == first


def test_no_path_or_name_of_the_machine_is_inside() -> None:
    blob, _ = compiled(float_add("f32", "buffer"), "gfx1100")
    assert str(Path.home()).encode() not in blob
    assert str(Path(__file__).parents[2]).encode() not in blob


READ_BY_ONE_ARM = """
    %2 = local_linear_id : i32
    %3 = alloc {{name="a"}} : workgroup<i32,128>
    %8 = load %0, %2 : i32
    store %3, %2, %8
    %9 = const 5 : i32
    %10 = xor %2, %9 : i32
    barrier
    %11 = load %3, %10 : i32
    {0}
    %4 = const 0 : i32
    %5 = ne %1, %4 : bool
    if %5 {{
      store %0, %2, %11
      yield
    }} else {{
      yield
    }}
    store %3, %2, %9
    return"""
FENCE = 'fence {scope="workgroup", order="release"}'


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize(("between", "then"), [("barrier", "barrier"), (FENCE, "branch")])
def test_a_load_does_not_move_past_a_barrier_or_a_fence_to_the_arm_that_reads_it(
    arch: str, between: str, then: str, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    k = kernel("x: i32 buffer readwrite, n: i32 scalar", READ_BY_ONE_ARM.format(between), "128 1 1")
    text = assembly(compiled(k, arch)[0])
    order = re.findall(r"\bds_(?:load|read)|\bs_c?(?:barrier|branch)(?!_signal)", text)
    words = [word.rpartition("_")[2].replace("read", "load").replace("cb", "b") for word in order]
    first = words.index("barrier")
    assert words[first : first + 3] == ["barrier", "load", then], words
