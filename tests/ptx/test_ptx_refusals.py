"""What PTX cannot be given is refused by type, at its place, and costs no other kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gristmill.backends.compile import CompileError
from gristmill.backends.llvm import toolchain
from gristmill.backends.ptx import intrinsics
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.steps import compile_step, source_error
from gristmill.backends.trace import trace
from gristmill.ir.core import Kernel
from kernel_bodies import workgroup_bytes
from kernel_text import kernel
from ptx_tools import pool, ptx

VOTE = """
    %1 = global_id {dim=0} : i32
    %2 = load %0, %1 : bool
    %3 = subgroup_any %2 : bool
    store %0, %1, %3
    return"""


def vote(header: str) -> Kernel:
    return kernel("x: bool buffer readwrite", VOTE, header=header)


@pytest.mark.parametrize("size", [8, 16])
def test_a_subgroup_of_another_size(size: int) -> None:
    with pytest.raises(
        CompileError, match=r"a subgroup has 32 .* give a variant with SUBGROUP: 32"
    ):
        ptx(vote(f"subgroup {size}"))
    with pytest.raises(CompileError, match="a subgroup has 32 invocations here"):
        ptx(kernel("x: f32 buffer readwrite", "return", header=f"subgroup {size}"))


def test_a_subgroup_op_without_a_size_is_refused_at_its_line() -> None:
    with pytest.raises(CompileError, match=r"<kernel IR>:\d+.*SUBGROUP = 32") as caught:
        ptx(vote(""))
    assert caught.value.loc is not None
    assert "vote.sync.any" in ptx(vote("subgroup 32"))


@pytest.mark.parametrize("size", ["1 1 128", "2048 1 1", "32 32 2"])
def test_a_workgroup_that_no_device_can_run(size: str) -> None:
    with pytest.raises(CompileError, match="a workgroup of"):
        ptx(kernel("x: f32 buffer readwrite", "return", workgroup=size))


def test_an_unknown_architecture_names_the_known_ones() -> None:
    with pytest.raises(CompileError, match="known: sm_75, sm_80"):
        ptx(vote("subgroup 32"), "sm_42")


@pytest.mark.parametrize("name", ARCHS)
def test_workgroup_memory_beyond_what_the_architecture_has(name: str) -> None:
    def array(size: int) -> Kernel:
        return kernel("x: u8 buffer readwrite", workgroup_bytes(size))

    most = ARCHS[name].shared_bytes
    ptx(array(most), name)
    words = rf"exceed the limit of {most} bytes of {name}; .*variants: ptx-{name} in configs"
    with pytest.raises(CompileError, match=words) as caught:
        ptx(array(most + 1), name)
    assert caught.value.loc is not None


def test_workgroup_memory_of_each_architecture_is_what_nvidia_states() -> None:
    """KiB, less the one that the system keeps from sm_80 on."""
    stated = {"sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_90a": 227}
    stated |= {"sm_100": 227, "sm_120": 99}
    assert {name: arch.shared_bytes / 1024 for name, arch in ARCHS.items()} == stated


@pytest.mark.parametrize("name", ["kernelé", "_", "WARP_SZ", "k\N{SUPERSCRIPT TWO}"])
def test_a_name_that_ptx_does_not_take_is_refused_at_the_line_of_the_kernel(name: str) -> None:
    k = replace(kernel("x: f32 buffer readwrite", "return"), name=name)
    with pytest.raises(CompileError, match=r"<kernel IR>:1:1: .* made of ASCII letters") as caught:
        ptx(k)
    assert caught.value.loc is not None


SOURCE = b"""from __future__ import annotations
from gristmill.ir.lang import *


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def WARP_SZ(x: Write[f32]):
    x[local_id(0)] = 1.0
"""


def test_a_build_shows_the_source_line_of_a_refused_kernel() -> None:
    text, locs = trace({"kernels/k.py": SOURCE}, "k", "WARP_SZ", "plain", {})
    with pytest.raises(CompileError) as caught:
        compile_step(text.decode(), "ptx-sm_80", {}, "")
    assert str(source_error(caught.value, locs)).startswith("kernels/k.py:6:1: kernel WARP_SZ")


@pytest.mark.parametrize("name", ["_1", "WARP_SZ_", "add", "K", "__"])
def test_a_name_that_ptx_takes(name: str) -> None:
    assert f".entry {name}(" in ptx(replace(kernel("x: f32 buffer readwrite", "return"), name=name))


def test_an_end_of_llvm_is_an_error_of_one_kernel() -> None:
    machine = ARCHS["sm_80"].machine()
    text = """
    define ptx_kernel void @k(ptr addrspace(1) %p) {
      %x = load double, ptr addrspace(1) %p
      %y = call double @llvm.sin.f64(double %x)
      store double %y, ptr addrspace(1) %p
      ret void
    }
    declare double @llvm.sin.f64(double)
    """
    with pytest.raises(CompileError, match="ended"):
        pool().run(f"{toolchain.__name__}:emit_assembly", text, machine)
    assert ".entry" in ptx(vote("subgroup 32"))


def test_no_function_that_llvm_cannot_select_is_in_the_table() -> None:
    odd = ["llvm.sin.f32", "llvm.exp.f32", "llvm.pow.f64", "llvm.nvvm.shfl.sync.idx.f64", "sinf"]
    fine = ["llvm.fma.f16", "llvm.nvvm.redux.sync.umin", "llvm.nvvm.read.ptx.sreg.ctaid.z"]
    assert intrinsics.unknown([*odd, *fine]) == sorted(odd)
