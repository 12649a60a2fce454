"""Two machines' worth of builds: checkouts in different folders, Pythons of different versions, and
what the second one then has to build. Their artifacts are the same to the byte."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from need import Need, second_python
from project import ROOT, Project, copy_compiler

TARGETS = "interp-kir,cpu-x86-64-v3,spirv-vulkan1.1,wgsl-webgpu,ptx-sm_90,hsaco-gfx942"
WORDS = (f"target={TARGETS}", "kernel=softmax,saxpy,hosted")
HOSTED = """\
from __future__ import annotations
import math
from ..ir.lang import *

SCALE = math.exp(0.7)

@kernel(workgroup=lambda: 64, grid=lambda: ceil_div(len(x), 64))
def hosted(x: ReadWrite[f32]):
    i = global_id(0)
    if i < len(x):
        x[i] = x[i] * SCALE
"""
# A Python that says of itself that it is another one, on another C library.
ANOTHER = """\
import platform
platform.python_version_tuple = lambda: ("3", "99", "0")
platform.libc_ver = lambda: ("another", "1.0")
"""


class Machine(Project):
    """A checkout with the real kernels and one more, and a compiler of its own."""

    def __init__(self, folder: Path, python: str = sys.executable, own: str = "") -> None:
        super().__init__(folder, copy_compiler(folder / "compiler"))
        self.python = python
        for name in ("kernels", "configs"):
            shutil.rmtree(self.path(name))
            shutil.copytree(ROOT / name, self.path(name))
        self.write("kernels/hosted.py", HOSTED)
        row = "kernel: hosted\nmodule: hosted\nspecializations:\n  plain: {}\n"
        self.write("configs/kernels/hosted.yaml", row)
        if own:
            (self.compiler.parent / "sitecustomize.py").write_text(own)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine that has built everything, and has published it in the folder `cache`."""
    machine = Machine(tmp_path_factory.mktemp("first"))
    run = machine.scons(*WORDS, f"cache={machine.path('cache')}")
    assert (run.status, run.err) == (0, "")
    return machine


@pytest.fixture(params=["a folder", "another Python", "a second Python"])
def second(request: pytest.FixtureRequest, tmp_path: Path, require: Need) -> Machine:
    """A machine that has built nothing yet."""
    folder = tmp_path / "elsewhere" / "and deeper"
    if request.param == "a second Python":
        require("second-python")
        return Machine(folder, second_python())
    return Machine(folder, own=ANOTHER if request.param == "another Python" else "")


def test_whatever_another_machine_has_built_is_built_nowhere_else(
    first: Machine, second: Machine
) -> None:
    words = [word.replace(",hosted", "") for word in WORDS]
    cache = f"cache={first.path('cache')}"
    run = second.scons(*words, cache, "cache_mode=read")
    assert (run.status, run.err) == (0, "")
    assert run.built == 0
    assert run.stored > 30
    assert "100.0 % hits: " in run.out
    ours = second.artifacts()
    assert len(ours) > 60
    theirs = first.artifacts()
    assert [name for name in ours if name != "bundle.json" and ours[name] != theirs[name]] == []


@pytest.mark.parametrize("second", ["a folder", "a second Python"], indirect=True)
def test_what_a_machine_builds_alone_has_the_same_bytes(first: Machine, second: Machine) -> None:
    run = second.scons(*WORDS)
    assert (run.status, run.err) == (0, "")
    assert run.built > 30
    assert second.artifacts() == first.artifacts()


def test_a_trace_that_depends_on_the_host_is_traced_by_each(
    first: Machine, second: Machine
) -> None:
    """The others would hit; this one hits only where the same Python would execute its module."""
    cache = f"cache={first.path('cache')}"
    run = second.scons("kernel=hosted", "target=interp-kir", cache, "cache_mode=read")
    assert (run.status, run.err) == (0, "")
    own = (second.compiler.parent / "sitecustomize.py").exists()
    assert run.steps("trace") == (1 if own or second.python != sys.executable else 0)
