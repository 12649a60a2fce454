"""The compiler's digest: every source that can change a stage's output is in that stage's list."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from gristmill.store import digest
from gristmill.store.digest import STAGES, stage_digest, stage_files

PACKAGE = digest.PACKAGE

# Where each stage begins; what these import, and so on, must be listed.
ENTRIES = {
    "trace": ("backends/trace.py", "ir/lang/__init__.py"),
    "interp": ("backends/compile.py", "backends/interp/emit.py"),
    "spirv": ("backends/steps.py", "backends/spirv/emit.py"),
    "spirv_llc": ("backends/steps.py", "backends/spirv_llc/emit.py"),
    "wgsl": ("backends/steps.py", "backends/wgsl/emit.py"),
    "cpu": ("backends/steps.py", "backends/cpu/emit.py", "backends/cpu/replay.py"),
    "ptx": ("backends/steps.py", "backends/ptx/emit.py"),
    "cubin": ("backends/steps.py", "backends/cubin/emit.py"),
    "hsaco": ("backends/steps.py", "backends/hsaco/emit.py"),
}


def imported(path: Path) -> list[Path]:
    """The files of the package that a file imports, at its head or inside functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1]
        words = (node.module or "").split(".") if node.module else []
        module = base.joinpath(*words)
        candidates = [module.with_suffix(".py"), module / "__init__.py"]
        for alias in node.names:
            candidates += [module / f"{alias.name}.py", module / alias.name / "__init__.py"]
        found += [c for c in candidates if c.is_file()]
    return found


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_a_stage_lists_all_that_it_imports(stage: str) -> None:
    listed = {p.resolve() for p in stage_files(stage)}
    todo = [PACKAGE / name for name in ENTRIES[stage]]
    assert all(path.is_file() for path in todo)
    seen: set[Path] = set()
    while todo:
        path = todo.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        todo += imported(path)
    missing = sorted(str(p.relative_to(PACKAGE.resolve().parents[1])) for p in seen - listed)
    assert not missing, f"stage {stage} does not list {missing}"


def test_the_step_itself_counts() -> None:
    """Interp too, which needs none of the passes that the step imports for checks."""
    for stage in ("interp", "spirv", "cpu"):
        assert PACKAGE / "backends/steps.py" in stage_files(stage)


def test_an_edit_changes_the_digest_of_its_stage_only(tmp_path: Path) -> None:
    package = tmp_path / "package"
    for top in ("ir", "backends", "store"):
        shutil.copytree(PACKAGE / top, package / top, ignore=shutil.ignore_patterns("__pycache__"))
    before = {stage: stage_digest(stage, package) for stage in STAGES}
    assert before == {stage: stage_digest(stage) for stage in STAGES}
    (package / "backends/spirv/extra.py").write_text("X = 1\n")
    after = {stage: stage_digest(stage, package) for stage in STAGES}
    assert [stage for stage in STAGES if before[stage] != after[stage]] == ["spirv"]
    (package / "ir/core.py").write_text("")
    assert not [stage for stage in STAGES if stage_digest(stage, package) == after[stage]]


def test_a_renamed_file_changes_the_digest(tmp_path: Path) -> None:
    for name in ("a", "b"):
        folder = tmp_path / name / "backends/interp"
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text("")
    assert stage_digest("interp", tmp_path / "a") != stage_digest("interp", tmp_path / "b")
