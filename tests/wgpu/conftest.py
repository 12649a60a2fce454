"""wgpu on each software driver of this machine, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wgpu_processes import DRIVERS, Runner, samples


@pytest.fixture(scope="session")
def bundle_of_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples(tmp_path_factory.mktemp("wgpu"))


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest, require: Callable[..., None]) -> str:
    """Each driver."""
    require("wgpu")
    require(request.param)
    return str(request.param)


@pytest.fixture
def run(bundle_of_samples: Path) -> Runner:
    """See `Runner`."""
    return Runner(bundle_of_samples)
