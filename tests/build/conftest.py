"""A project of one's own for each test of the build."""

from __future__ import annotations

from pathlib import Path

import pytest

from project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
