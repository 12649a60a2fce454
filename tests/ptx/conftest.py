"""The helpers that lie beside the tests, and the architectures as parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

for folder in ("ptx", "cpu", "spirv"):  # `elementwise`, `kernel_text`, the cases of every op
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from gristmill.backends.ptx.arch import ARCHS  # noqa: E402 - the path is set above
from ptx_tools import usual  # noqa: E402

USUAL = usual()


@pytest.fixture(
    params=[a if a in USUAL else pytest.param(a, marks=pytest.mark.slow) for a in ARCHS]
)
def arch(request: pytest.FixtureRequest, require: Callable[..., None]) -> str:
    """An architecture whose PTX the assembler here takes."""
    require("ptxas")
    return request.param
