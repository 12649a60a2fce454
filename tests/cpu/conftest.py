"""The architecture levels as a parameter, and the helpers that lie beside the tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

for folder in ("cpu", "spirv"):  # `elementwise` has the inputs that reach an op's corners
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

import cpu_runner  # noqa: E402 - the path is set above


@pytest.fixture(params=cpu_runner.ARCHS)
def arch(request: pytest.FixtureRequest, require: Callable[..., None]) -> str:
    """A cpu architecture whose artifacts can be run here."""
    name = request.param
    if reason := cpu_runner.missing(name):
        require("qemu" if name == "aarch64" else f"cpu-{name}", reason)
    return name


@pytest.fixture(params=cpu_runner.X86)
def x86(request: pytest.FixtureRequest, require: Callable[..., None]) -> str:
    """An x86-64 level that this processor has."""
    if reason := cpu_runner.missing(request.param):
        require(f"cpu-{request.param}", reason)
    return request.param
