"""What a processor cannot be given is refused by type, at its place, with the figures."""

from __future__ import annotations

import pytest

from gristmill.backends.compile import CompileError
from gristmill.backends.hsaco import intrinsics
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.ir.core import Kernel
from hsaco_tools import compiled
from kernel_bodies import workgroup_bytes
from kernel_text import kernel

VOTE = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : bool
    %3 = subgroup_any %2 : bool
    store %0, %1, %3
    return"""


def vote(header: str) -> Kernel:
    return kernel("x: bool buffer readwrite", VOTE, header=header)


@pytest.mark.parametrize(
    ("arch", "size", "there"),
    [("gfx1100", 16, "32 or 64"), ("gfx942", 32, "64"), ("gfx9-generic", 8, "64")],
)
def test_a_subgroup_of_another_size(arch: str, size: int, there: str) -> None:
    words = f"a subgroup has {there} invocations here, not {size}; give a variant with SUBGROUP"
    with pytest.raises(CompileError, match=words):
        compiled(vote(f"subgroup {size}"), arch)
    with pytest.raises(CompileError, match=words):
        compiled(kernel("x: f32 buffer readwrite", "return", header=f"subgroup {size}"), arch)


def test_a_subgroup_op_without_a_size_is_refused_at_its_line() -> None:
    with pytest.raises(CompileError, match=r"<kernel IR>:\d+.*SUBGROUP = 32") as caught:
        compiled(vote(""), "gfx1100")
    assert caught.value.loc is not None


def test_halves_of_a_subgroup_that_do_not_meet() -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : i32
    %3 = subgroup_shuffle %2, %2 : i32
    store %0, %1, %3
    return"""
    k = kernel("x: i32 buffer readwrite", body, header="subgroup 64")
    with pytest.raises(CompileError, match="gfx1030 moves no values between the halves"):
        compiled(k, "gfx1030")
    compiled(k, "gfx1100")


@pytest.mark.parametrize("size", ["2048 1 1", "32 32 2"])
def test_a_workgroup_that_no_device_can_run(size: str) -> None:
    with pytest.raises(CompileError, match="a workgroup of"):
        compiled(kernel("x: f32 buffer readwrite", "return", workgroup=size), "gfx1100")


@pytest.mark.parametrize("arch", ["gfx42", "gfx1100:xnack+", "gfx90a:xnack+:sramecc+", "gfx90a:"])
def test_a_target_id_that_there_is_none_of(arch: str) -> None:
    with pytest.raises(CompileError, match=r"known: gfx906|the settings of|has no settings"):
        compiled(vote("subgroup 32"), arch)


@pytest.mark.parametrize("name", PROCESSORS)
def test_workgroup_memory_beyond_what_the_processor_has(name: str) -> None:
    def array(size: int) -> Kernel:
        return kernel("x: u8 buffer readwrite", workgroup_bytes(size))

    most = PROCESSORS[name].lds
    assert most == (160 << 10 if name == "gfx950" else 64 << 10)
    compiled(array(most), name)
    words = rf"exceed the limit of {most} bytes of {name}; .*variants: hsaco-{name} in configs"
    with pytest.raises(CompileError, match=words) as caught:
        compiled(array(most + 1), name)
    assert caught.value.loc is not None


@pytest.mark.parametrize(
    ("arch", "size", "most"),
    [
        ("gfx942", 64, 131056), ("gfx1030", 32, 262112), ("gfx1100", 32, 262136),
        ("gfx1100", 64, 131068), ("gfx1201", 32, 2097144),
    ],
)  # fmt: skip
def test_private_memory_beyond_what_an_invocation_can_have(arch: str, size: int, most: int) -> None:
    def array(count: int) -> Kernel:
        body = f"""
        %1 = alloc {{name="few"}} : private<u8,32>
        %2 = alloc {{name="many"}} : private<u8,{count}>
        %3 = local_linear_id : i32
        %4 = load %0, %3 : u8
        store %1, %3, %4
        store %2, %3, %4
        %5 = convert %4 : i32
        %6 = load %1, %5 : u8
        %7 = load %2, %5 : u8
        %8 = add %6, %7 : u8
        store %0, %3, %8
        return"""
        return kernel("x: u8 buffer readwrite", body, header=f"subgroup {size}")

    compiled(array(most - 64), arch)
    for count in (most - 31, 1 << 28):  # of the greater one LLVM makes a kernel that does nothing
        words = rf"arrays of {count + 32} bytes exceed the limit of {most} bytes of an invocation"
        with pytest.raises(CompileError, match=words) as caught:
            compiled(array(count), arch)
        assert caught.value.loc is not None


def test_an_op_of_another_vendor_is_refused_at_its_line() -> None:
    body = "%1 = nv_role {count=1, first=0} : bool\nreturn"
    with pytest.raises(CompileError, match="needs nv_roles"):
        compiled(kernel("x: f32 buffer read", body), "gfx1100")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("llvm.sqrt.f32", True), ("llvm.sin.f32", False), ("llvm.amdgcn.ballot.i32", True),
        ("llvm.amdgcn.s.sleep", False), ("llvm.memcpy.p0.p0.i64", False),
    ],
)  # fmt: skip
def test_intrinsics_outside_the_table_are_found(name: str, known: bool) -> None:
    """LLVM ends its process on one that it cannot select."""
    assert (intrinsics.unknown([name]) == []) == known
