"""The project of `tune_project`, and what is built of it once."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import Project, copy_compiler
from tune_project import made


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_compiler(tmp_path_factory.mktemp("compiler"))


@pytest.fixture
def project(tmp_path: Path, compiler: Path) -> Project:
    return made(tmp_path, compiler)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, compiler: Path) -> Project:
    """The project with its bundle, and the bundle of all points. No test changes it."""
    project = made(tmp_path_factory.mktemp("tuned"), compiler)
    for words in ([], ["tune=gemv", "pack"]):
        done = project.scons(*words)
        assert done.status == 0, done.text
    done = project.scons("tune=gemv")
    assert done.status == 0, done.text
    return project
