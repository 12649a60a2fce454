"""What is published installs, runs kernels and brings no compiler along."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from project import ROOT

# By their import names.
FOLDERS = {name: name for name in ("ir", "store", "kernels", "backends", "runtime", "fuzz", "cli")}
FOLDERS["models"] = "models"
FOLDERS["onnx"] = "onnx_backend"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from it."""
    tree = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in (*FOLDERS.values(), "src"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    out = tree / "dist"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def installed(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site-packages with the wheel and numpy, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    (wheel,) = published.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    packages = Path(np.__file__).parent.parent
    for name in ("numpy", "numpy.libs"):
        if (packages / name).exists():
            (site / name).symlink_to(packages / name)
    return site


def python(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Run code with that site-packages alone."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(
        command,
        env={**environment, "PYTHONPATH": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
    )


def test_the_sdist_holds_files_and_no_links(published: Path) -> None:
    (sdist,) = published.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [m.name for m in members if m.issym() or m.islnk()]
    names = {m.name.partition("/")[2] for m in members}
    assert {f"src/gristmill/{name}/__init__.py" for name in FOLDERS} <= names


def test_the_wheel_holds_every_module(published: Path) -> None:
    (wheel,) = published.glob("*.whl")
    tree = published.parent
    with zipfile.ZipFile(wheel) as archive:
        inside = {n for n in archive.namelist() if n.endswith(".py")}
    wanted = {
        f"gristmill/{name}/{path.relative_to(tree / folder).as_posix()}"
        for name, folder in FOLDERS.items()
        for path in (tree / folder).rglob("*.py")
        if any(path.parent.glob("__init__.py"))
    }
    assert wanted <= inside, sorted(wanted - inside)


def test_the_wheel_needs_numpy_only(published: Path) -> None:
    (wheel,) = published.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("METADATA")]
        lines = archive.read(name).decode().splitlines()
    needs = [line for line in lines if line.startswith("Requires-Dist:") and "extra" not in line]
    assert needs == ["Requires-Dist: numpy>=1.26"]
    assert "License-Expression: Apache-2.0" in lines


def test_the_runtime_is_importable_where_no_compiler_is(installed: Path) -> None:
    done = python(installed, "import gristmill.runtime, sys; print(gristmill.runtime.__file__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(installed))
    for module in ("llvmlite", "SCons", "yaml", "vulkan"):
        assert python(installed, f"import {module}").returncode, f"{module} is there after all"


def test_the_references_of_the_kernels_ship(installed: Path) -> None:
    done = python(installed, "from gristmill.kernels import families; print(len(families()))")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10


def test_the_command_is_there(installed: Path) -> None:
    code = "from gristmill.cli.main import main; main(['--help'])"
    assert "devices" in python(installed, code).stdout
    (entry,) = installed.glob("*.dist-info/entry_points.txt")
    assert "gristmill = gristmill.cli.main:main" in entry.read_text()


def test_the_running_interpreter_imports_no_compiler_for_the_runtime() -> None:
    code = (
        "import gristmill.runtime, sys; "
        "print([m for m in ('llvmlite', 'SCons', 'yaml') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
