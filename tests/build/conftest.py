"""A project of one's own for each test of the build."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import Project, copy_compiler


@pytest.fixture(scope="session")
def shared_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the compiler that no test edits."""
    return copy_compiler(tmp_path_factory.mktemp("compiler"))


@pytest.fixture
def project(tmp_path: Path, shared_compiler: Path) -> Project:
    return Project(tmp_path, shared_compiler)
