"""cubins: made without a GPU, with figures from the artifact, checked against their label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gristmill.backends.compile import CompileError
from gristmill.backends.cubin import assembler, elf
from gristmill.backends.cubin.emit import assemble, assemble_step, validate
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.steps import relabelled
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy
from gristmill.kernels.matmul import matmul
from gristmill.kernels.reduction import reduce_rows
from ptx_tools import compiled, pool, ptx

SAXPY = saxpy.trace("f32", T="f32")


@pytest.fixture(params=["nvjitlink", "ptxas"])
def made_by(
    request: pytest.FixtureRequest, require: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Each assembler in turn."""
    require(request.param)
    if request.param == "nvjitlink":
        monkeypatch.setattr(assembler, "ptxas", lambda: None)
    assembler.identity.cache_clear()
    yield request.param
    assembler.identity.cache_clear()


@pytest.mark.parametrize("name", ARCHS)
def test_a_cubin_holds_its_architecture_and_its_kernel(name: str, made_by: str) -> None:
    blob, facts = assemble("saxpy", ptx(SAXPY, name).encode(), name)
    found = elf.read(blob)
    assert (found.arch, found.name) == (name, "saxpy")
    assert facts["assembler"].startswith(made_by)
    assert 8 <= facts["registers"] == found.registers <= 64
    assert facts["spill_stores"] == facts["spill_loads"] == facts["local_bytes"] == 0
    validate(blob, name, SAXPY)


@pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_120"])
def test_workgroup_memory_is_that_of_the_kernel(name: str, made_by: str) -> None:
    k = reduce_rows.trace("x", T="f32", OP="sum", SUBGROUP=32)
    _, facts = assemble("reduce_rows", ptx(k, name).encode(), name)
    assert facts["shared_bytes"] == 32


def test_the_same_text_gives_the_same_bytes(made_by: str) -> None:
    text = ptx(matmul.trace("x", T="f32", SUBGROUP=32)).encode()
    assert assemble("matmul", text, "sm_80") == assemble("matmul", text, "sm_80")


def test_a_wrong_label_is_refused(made_by: str) -> None:
    blob, _ = assemble("saxpy", ptx(SAXPY).encode(), "sm_80")
    with pytest.raises(CompileError, match="holds arch sm_80, its label says sm_86"):
        validate(blob, "sm_86", SAXPY)
    with pytest.raises(CompileError, match="holds kernel saxpy"):
        validate(blob, "sm_80", reduce_rows.trace("x", T="f32", OP="sum"))
    exact, _ = assemble("saxpy", ptx(SAXPY, "sm_90a").encode(), "sm_90a")
    with pytest.raises(CompileError, match="holds arch sm_90a, its label says sm_90"):
        validate(exact, "sm_90", SAXPY)
    with pytest.raises(CompileError, match=r"parameters .* are \(16, 4\), not \(16, 8\)"):
        validate(blob, "sm_80", saxpy.trace("f64", T="f64"))
    with pytest.raises(CompileError, match=r"its workgroup is \(256, 1, 1\), not \(128, 1, 1\)"):
        validate(blob, "sm_80", replace(SAXPY, workgroup=(128, 1, 1)))


def test_damaged_bytes_are_refused(made_by: str) -> None:
    blob, _ = assemble("saxpy", ptx(SAXPY).encode(), "sm_80")
    for damaged in (b"", b"\x7fELF", blob[:100], blob[: len(blob) // 2], b"\0" + blob[1:]):
        with pytest.raises(CompileError, match="cubin"):
            validate(damaged, "sm_80", SAXPY)


def test_a_ptx_newer_than_the_assembler_is_refused_in_its_words(made_by: str) -> None:
    text = ptx(SAXPY).replace(".version 7.0", ".version 99.0").encode()
    with pytest.raises(CompileError, match=r"Unsupported \.version 99\.0"):
        assemble("saxpy", text, "sm_80")


def program(folder: Path, words: str) -> None:
    folder.mkdir(parents=True)
    (folder / "ptxas").write_text(f"#!/bin/sh\n{words}\n")
    (folder / "ptxas").chmod(0o755)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in place of NVIDIA's packages, and nothing on PATH."""
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(assembler.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(assembler.shutil, "which", lambda name: None)
    assembler.identity.cache_clear()
    yield tmp_path
    assembler.identity.cache_clear()


def test_the_newest_ptxas_runs_whatever_its_package_is_called(packages: Path) -> None:
    for name, told in (("cuda_nvcc", "V12.9.86"), ("cu13", "V13.0.88"), ("cu9", "V9.2.148")):
        program(packages / name / "bin", f"echo release, {told}")
    assert assembler.ptxas() == packages / "cu13/bin/ptxas"
    assert assembler.identity() == "ptxas 13.0.88"


def test_a_ptxas_that_tells_no_version_is_not_taken(packages: Path) -> None:
    program(packages / "cu13/bin", "echo hello")
    program(packages / "cu12/bin", "exit 1")
    assert assembler.ptxas() is None
    assert "unknown" not in assembler.identity()


def test_a_ptxas_that_hangs_is_not_waited_for_long(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(packages / "cu13/bin", "exec sleep 60")
    program(packages / "cu12/bin", "echo release, V12.9.86")
    assert assembler._VERSION_SECONDS <= 10
    monkeypatch.setattr(assembler, "_VERSION_SECONDS", 0.3)
    assert assembler.identity() == "ptxas 12.9.86"


def test_nvjitlink_of_another_cuda_beside_it_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after `pip install nvidia-nvjitlink nvidia-nvjitlink-cu12`."""
    for name in ("cu13/lib/libnvJitLink.so.13", "nvjitlink/lib/libnvJitLink.so.12"):
        (tmp_path / "nvidia" / name).parent.mkdir(parents=True)
        (tmp_path / "nvidia" / name).touch()
    for name, version, file in (
        ("nvidia_nvjitlink", "13.0.88", "cu13/lib/libnvJitLink.so.13"),
        ("nvidia_nvjitlink_cu12", "12.9.86", "nvjitlink/lib/libnvJitLink.so.12"),
    ):
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
        (about / "RECORD").write_text(f"nvidia/{file},,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(assembler, "ptxas", lambda: None)
    assembler.identity.cache_clear()
    assert assembler.library() == tmp_path / "nvidia/cu13/lib/libnvJitLink.so.13"
    assert assembler.identity() == "nvjitlink 13.0.88"
    assembler.identity.cache_clear()


def test_an_assembler_that_hangs_is_an_error_of_one_kernel(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(packages / "cu13/bin", "[ $1 = --version ] && echo V13.0 || exec sleep 60")
    monkeypatch.setattr(assembler, "_SECONDS", 0.2)
    with pytest.raises(CompileError, match=r"saxpy for cubin-sm_80: ptxas was not done after 0\.2"):
        assemble("saxpy", b"", "sm_80")


def test_without_an_assembler_the_refusal_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assembler, "library", lambda: None)
    monkeypatch.setattr(assembler, "ptxas", lambda: None)
    assembler.identity.cache_clear()
    assert assembler.identity() == assembler.MISSING
    assembler.identity.cache_clear()
    with pytest.raises(CompileError, match=r"gristmill\[cubin\]"):
        assemble("saxpy", b"", "sm_80")


def test_the_build_step_gives_what_the_backend_gives(require: Callable[..., None]) -> None:
    require("ptxas")
    step = "gristmill.backends.steps:compile_step"
    one = pool().run(step, print_kernel(SAXPY), "cubin-sm_80", {"checks": False}, "")
    two = pool().run("gristmill.backends.cubin.emit:assemble_step", ptx(SAXPY).encode(), "sm_80")
    assert one["artifact"] == two["artifact"]


@pytest.mark.parametrize("checks", [False, True])
def test_a_build_refuses_a_cubin_of_another_text_than_its_manifest(
    checks: bool, require: Callable[..., None]
) -> None:
    require("ptxas")
    _, manifest = compiled(SAXPY, checks=checks)
    first = manifest.to_json().encode()
    right = assemble_step(ptx(SAXPY, checks=checks).encode(), "sm_80")
    relabelled(first, "cubin-sm_80", "key", **right)
    wrong = assemble_step(ptx(SAXPY, checks=not checks).encode(), "sm_80")
    with pytest.raises(CompileError, match="its parameters"):
        relabelled(first, "cubin-sm_80", "key", **wrong)


@pytest.mark.parametrize("flip", [0xFF, 0x01, 0x80])
def test_a_cubin_with_any_byte_flipped_is_read_or_a_cubin_error(made_by: str, flip: int) -> None:
    blob, _ = assemble("saxpy", ptx(SAXPY, "sm_80").encode(), "sm_80")
    damaged = 0
    for at in range(len(blob)):
        bad = bytearray(blob)
        bad[at] ^= flip
        try:
            elf.read(bytes(bad))
        except elf.CubinError:
            damaged += 1
    assert damaged > 50
