"""toolchain=llc and toolchain=clang: these programs and opt give the bytes that llvmlite gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.backends.compile import CompileError, CompilerCrashError, Options, compile_kernel
from gristmill.backends.llvm import external
from gristmill.backends.llvm.machine import LlvmError
from gristmill.ir.core import Kernel
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy
from ptx_tools import ptx, shipped


def compares_bytes(kernel: Kernel) -> bool:
    """Whether a kernel loads bools. llvmlite's release of LLVM (22.1.0) extends such bytes in
    another way than later ones (22.1.8), and so makes other PTX."""
    return any(p.is_memory and p.dtype.is_bool and p.access.value != "write" for p in kernel.params)


@pytest.mark.parametrize("name", ["sm_80", pytest.param("sm_90a", marks=pytest.mark.slow)])
def test_every_shipped_kernel_is_the_same_ptx(name: str, require: Callable[..., None]) -> None:
    require("llc")
    for path, kernel in shipped(f"ptx-{name}"):
        text = print_kernel(kernel)
        made, _ = compile_kernel(text, f"ptx-{name}", Options(llvm="llc"))
        assert made.decode() == ptx(kernel, name) or compares_bytes(kernel), path


def test_clang_gives_the_same_ptx(require: Callable[..., None]) -> None:
    require("clang")
    for path, kernel in [*shipped("ptx-sm_80")][::12]:
        made, _ = compile_kernel(print_kernel(kernel), "ptx-sm_80", Options(llvm="clang"))
        assert made.decode() == ptx(kernel, "sm_80") or compares_bytes(kernel), path


@pytest.mark.parametrize("route", ["llc", "clang"])
@pytest.mark.parametrize("arch", ["x86-64-v3", "aarch64"])
def test_cpu_artifacts_are_the_same(arch: str, route: str, require: Callable[..., None]) -> None:
    require(route)
    for path, kernel in [*shipped("cpu-x86-64-v3")][:: 8 if route == "llc" else 24]:
        blobs = {
            compile_kernel(print_kernel(kernel), f"cpu-{arch}", Options(llvm=way))[0]
            for way in ("llvmlite", route)
        }
        assert len(blobs) == 1, path


def test_a_program_that_hangs_is_an_error_of_one_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "opt"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(external, "program", lambda name, option: (str(hangs), "22.1.0"))
    monkeypatch.setattr(external, "_SECONDS", 0.2)
    kernel = saxpy.trace("x", T="f32")
    with pytest.raises(CompileError, match=r"saxpy for ptx-sm_80: opt was not done after 0\.2"):
        compile_kernel(print_kernel(kernel), "ptx-sm_80", Options(llvm="llc"))


def test_a_program_that_is_ended_is_told_from_one_that_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = tmp_path / "opt"
    monkeypatch.setattr(external, "program", lambda name, option: (str(ended), "22.1.0"))
    text = print_kernel(saxpy.trace("x", T="f32"))
    for ends, kind, words in (
        ("kill -KILL $$", CompilerCrashError, "opt was ended by SIGKILL"),
        ("exit 1", CompileError, r"opt refuses the module \(status 1\)"),
    ):
        ended.write_text(f"#!/bin/sh\ncat > {tmp_path}/module; {ends}\n")
        ended.chmod(0o755)
        with pytest.raises(CompileError, match=words) as caught:
            compile_kernel(text, "ptx-sm_80", Options(llvm="llc"))
        assert type(caught.value) is kind


def test_a_program_that_does_not_tell_its_version_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "opt-22"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    assert external._VERSION_SECONDS <= 5
    monkeypatch.setattr(external, "_VERSION_SECONDS", 0.2)
    monkeypatch.setattr(external.shutil, "which", lambda name: str(hangs))
    external.program.cache_clear()
    with pytest.raises(LlvmError, match=r"opt-22 --version was not done after 0\.2 seconds: tool"):
        external.program("opt", "toolchain=llc")
    external.program.cache_clear()


def test_programs_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "Debian LLVM version 21.1.0\n", "")

    monkeypatch.setattr(external.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(external.subprocess, "run", told)
    external.program.cache_clear()
    with pytest.raises(LlvmError, match=r"opt of LLVM 22\.1 on PATH; opt-22 is 21\.1\.0"):
        external.program("opt", "toolchain=llc")
    assert external.identity("llc") == "llc missing"
    assert external.identity("clang") == "clang missing"
    external.program.cache_clear()
