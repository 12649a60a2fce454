"""PTX and cubins in the build: what is picked, and that a cubin hangs on the text of its PTX."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from gristmill_build import config, options, plan
from project import ROOT, Project

CONFIG = config.load(ROOT)
NVIDIA = "targets:\n  ptx-sm_80: {default: true}\n  cubin-sm_80: {}\n  cubin-sm_90: {}\n"
TOOLS = "backends:\n  ptx: [llvmlite]\n  cubin: [llvmlite]\n"


@pytest.fixture
def nvidia(project: Project) -> Project:
    """The toy project, built for PTX."""
    (project.root / "configs/targets.yaml").write_text(NVIDIA)
    (project.root / "configs/toolchain.yaml").write_text(TOOLS)
    return project


def chosen(**words: str) -> list[str]:
    return [row.name for row in options.choose(words, CONFIG).targets]


def test_a_backend_alone_means_its_baseline() -> None:
    assert chosen(target="ptx") == ["ptx-sm_80", "ptx-sm_90"]
    assert chosen(target="cubin") == ["cubin-sm_80", "cubin-sm_90"]


def test_arch_picks_any_architecture() -> None:
    assert chosen(target="ptx", arch="sm_80,sm_90a") == ["ptx-sm_80", "ptx-sm_90a"]
    assert set(chosen(arch="sm_120")) == {"ptx-sm_120", "cubin-sm_120"}


def test_a_plain_build_makes_no_ptx() -> None:
    assert not [name for name in chosen() if name.startswith(("ptx", "cubin"))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("target=cuda", "unknown target=cuda; cuda devices load what 'ptx' and 'cubin' build"),
        ("target=vulkan", "unknown target=vulkan; vulkan devices load what 'spirv' builds"),
        ("target=ptx arch=sm_80,vulkan1.1", "unknown architecture arch=vulkan1.1"),
        ("target=ptx-sm_80 arch=x86-64-v3", "unknown architecture arch=x86-64-v3 (known: sm_100"),
        ("target=ptx-sm_80,cpu arch=x86-64-v2", "leaves nothing of target=ptx-sm_80"),
        ("target=ptx,cpu arch=sm_80", "leaves nothing of target=cpu"),
        ("kernel=nv_matmul target=spirv", "nv_matmul is built only for ptx-sm_90a, cubin-sm_90a"),
        ("kernel=matmul,nv_matmul", "nv_matmul is built only for ptx-sm_90a, cubin-sm_90a"),
        ("kernel=nv_matmul target=ptx", "nv_matmul is built only for ptx-sm_90a, cubin-sm_90a"),
    ],
)
def test_a_choice_that_would_leave_out_what_it_names_is_refused(words: str, said: str) -> None:
    with pytest.raises(options.UsageError) as refused:
        chosen(**dict(word.split("=") for word in words.split()))
    assert said in str(refused.value)


def test_known_architectures_are_those_of_the_chosen_backends() -> None:
    with pytest.raises(options.UsageError) as refused:
        chosen(target="ptx", arch="vulkan1.1")
    assert "known: sm_100, sm_120, sm_75" in str(refused.value)
    assert "x86-64" not in str(refused.value)
    assert chosen(target="ptx,spirv", arch="sm_80,vulkan1.1") == ["ptx-sm_80", "spirv-vulkan1.1"]


def test_a_kernel_for_one_target_is_chosen_there() -> None:
    choice = options.choose(
        {"kernel": "nv_matmul", "target": "ptx,cpu", "arch": "sm_90a,x86-64-v3"}, CONFIG
    )
    assert [row.kernel for row in choice.kernels] == ["nv_matmul"]


def test_a_choice_that_matches_nothing_leaves_the_bundle_alone(project: Project) -> None:
    project.edit("configs/kernels/shift.yaml", "module: toy", "module: toy\ntargets: [interp-kir]")
    assert project.scons().status == 0
    before = project.artifacts()
    run = project.scons("kernel=shift", "target=interp-second")
    assert run.status == 2
    assert "shift is built only for interp-kir, not for interp-second" in run.err
    assert project.artifacts() == before


def test_cubins_take_the_variants_of_ptx() -> None:
    nodes = plan.plan(options.choose({"target": "ptx-sm_80,cubin-sm_80"}, CONFIG), CONFIG)
    traces = {backend: [] for backend in ("ptx", "cubin")}
    for step in nodes.compiles:
        traces[step.target.backend].append(step.trace.stem)
    assert traces["ptx"] == traces["cubin"]


def test_a_cubin_of_an_unchanged_ptx_comes_from_the_store(
    nvidia: Project, require: Callable[..., None]
) -> None:
    require("ptxas")
    first = nvidia.scons("target=cubin-sm_80", "kernel=scale")
    assert first.status == 0, first.text
    path = nvidia.root / "artifacts/cubin-sm_80/scale/small.json"
    manifest = json.loads(path.read_text())
    assert manifest["target"] == "cubin-sm_80"
    assert manifest["facts"]["registers"] > 0
    assert "ptx_isa" not in manifest["facts"]
    # Two traces, two PTX, two cubins; the PTX is in the store for whoever wants it.
    assert first.built == 6
    again = nvidia.scons("target=ptx-sm_80", "kernel=scale", "out=other")
    assert (again.built, again.stored) == (0, 4)
    # Another name of a value: other IR text, the same PTX.
    shared = nvidia.root / "kernels/shared.py"
    shared.write_text(shared.read_text().replace("%i.1", "%place.1"))
    changed = nvidia.scons("target=cubin-sm_80", "kernel=scale")
    assert changed.status == 0, changed.text
    assert (changed.built, changed.stored) == (4, 2)
    assert json.loads(path.read_text())["sha256"] == manifest["sha256"]


def test_a_missing_assembler_is_one_line(nvidia: Project) -> None:
    package = nvidia.root / "nvidia"  # hides NVIDIA's packages from this build
    package.mkdir()
    (package / "__init__.py").write_text("")
    about = nvidia.root / "nvidia_nvjitlink-0.dist-info"  # and so does this: it has no files
    about.mkdir()
    (about / "METADATA").write_text("Name: nvidia-nvjitlink\nVersion: 0\n")
    python = os.pathsep.join((str(nvidia.root), str(nvidia.compiler.parent)))
    done = nvidia.scons("target=cubin-sm_80", "kernel=scale", PATH="", PYTHONPATH=python)
    assert done.status != 0
    assert "cubin-sm_80 needs an assembler" in done.text
