"""Habits of SCons that would make a build of Python actions wrong or slow, each kept in check."""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gristmill_build import steps
from project import Project, copy_compiler


@pytest.fixture
def compiler(project: Project, tmp_path: Path) -> Path:
    """The compiler of this project's builds, to be edited."""
    project.compiler = copy_compiler(tmp_path / "compiler")
    return project.compiler


def test_an_edited_compiler_rebuilds_although_no_action_changed(
    project: Project, compiler: Path
) -> None:
    """SCons hashes an action's own bytecode and not what it calls."""
    assert project.scons().built == 6
    assert "up to date" in project.scons().out
    core = compiler / "ir/core.py"
    core.write_text(core.read_text() + "\n# edited\n")
    assert project.scons().built == 6


def test_an_edited_emitter_leaves_other_targets_alone(project: Project, compiler: Path) -> None:
    project.scons()
    (compiler / "backends/spirv/extra.py").write_text("X = 1\n")
    assert "up to date" in project.scons().out
    emitter = compiler / "backends/interp/emit.py"
    emitter.write_text(emitter.read_text() + "\n# edited\n")
    run = project.scons()
    assert (run.steps("trace"), run.steps("compile")) == (0, 3)


def test_the_way_an_action_is_written_is_no_input() -> None:
    """Bytecode differs between Python versions and with every local variable."""

    def one(target: Any, source: Any, env: Any) -> None:
        return None

    def other(target: Any, source: Any, env: Any) -> None:
        unused = 1
        del unused

    signatures = {
        bytes(steps.Step(f, "trace 1", None).get_contents([], [], {})) for f in (one, other)
    }
    assert len(signatures) == 1
    changed = bytes(steps.Step(one, "trace 2", None).get_contents([], [], {}))
    assert changed not in signatures


def test_the_build_asks_for_no_tool_of_the_host(project: Project) -> None:
    assert project.scons(PATH="").status == 0


def test_an_uninstalled_checkout_builds(project: Project, tmp_path: Path) -> None:
    """SCons undoes what a SConstruct does to sys.path before the actions run."""
    site = tmp_path / "site"
    site.mkdir()
    for name in ("SCons", "yaml", "numpy", "llvmlite", "numpy.libs"):
        spec = importlib.util.find_spec(name.partition(".")[0])
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent.with_name(name)
        if package.exists():
            (site / name).symlink_to(package)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-S", "-m", "SCons", "-j2"],
        cwd=project.root,
        env={**environment, "PYTHONPATH": str(site), "GRISTMILL_STORE": str(project.store)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 steps built" in done.stdout


def test_the_explanation_of_a_rebuild_names_what_changed_and_nothing_else(
    project: Project,
) -> None:
    project.scons()
    project.edit("kernels/shared.py", "FACTOR = 3", "# why three\nFACTOR = 3")
    out = project.scons("--debug=explain").out
    causes = set(re.findall(r"rebuilding .* because `(.*)' changed", out))
    assert causes <= {
        "kernels/shared.py",
        *(f"artifacts/kir/{k}.loc.json" for k in ("scale/small", "scale/big", "shift/plain")),
    }
    assert "kernels/shared.py" in causes


def test_one_result_can_be_asked_for_by_name(project: Project) -> None:
    run = project.scons("artifacts/interp-kir/scale/big.kir")
    assert run.status == 0
    assert (run.steps("trace"), run.steps("compile"), run.steps("bundle")) == (1, 1, 0)


def test_all_processors_are_used_unless_told_otherwise(project: Project) -> None:
    text = project.path("SConstruct").read_text()
    project.path("SConstruct").unlink()
    project.write("SConstruct", text + "\nprint('JOBS', GetOption('num_jobs'), shop.jobs)\n")
    processors = len(os.sched_getaffinity(0))
    assert f"JOBS {processors} {processors}" in project.scons("-n", jobs=None).out
    assert "JOBS 3 3" in project.scons("-n", jobs=3).out


def test_many_nodes_are_looked_at_quickly(project: Project) -> None:
    """A null build of a few hundred nodes takes well under its bound of a second."""
    rows = "".join(f"  s{n}: {{BLOCK: {n + 1}}}\n" for n in range(150))
    project.write("configs/kernels/scale.yaml", f"module: toy\nspecializations:\n{rows}")
    assert project.scons().status == 0
    times = []
    while len(times) < 10 and not any(seconds < 1.0 for seconds in times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert project.scons().status == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Processor time: other processes only add to the wall's.
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 1.0, times
