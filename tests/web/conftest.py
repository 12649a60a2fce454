"""The page as `scons web` makes it, served, and a browser that has it open."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "spirv"))
sys.path.insert(0, str(Path(__file__).parent))

from chromium import SWIFTSHADER, Chromium
from chromium_driver import ChromiumDriver
from need import Need
from site_server import Site

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="session")
def built(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `scons web` and `scons target=wgsl` make of these sources: the folder of artifacts."""
    out = tmp_path_factory.mktemp("page")
    command = [sys.executable, "-m", "SCons", "-Q", "web", "all", "target=wgsl", f"out={out}"]
    environment = {**os.environ, "GRISTMILL_STORE": str(store_of_builds)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return out


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for files of tests, served as /other/."""
    return tmp_path_factory.mktemp("other")


@pytest.fixture(scope="session")
def site(built: Path, other: Path) -> Iterator[Site]:
    """The page at /, the scripts of tests at /judge/."""
    with Site({"/": built / "web", "/judge/": HERE, "/other/": other}) as served:
        yield served


@pytest.fixture(scope="session")
def browser() -> Iterator[Chromium]:
    """Chromium with WebGPU on SwiftShader."""
    Need.from_environment(os.environ)("chromium")
    with Chromium(SWIFTSHADER) as opened:
        yield opened


@pytest.fixture(scope="session")
def tint() -> Iterator[ChromiumDriver]:
    """A browser that compiles and runs modules apart from the page."""
    Need.from_environment(os.environ)("chromium")
    driver = ChromiumDriver()
    yield driver
    driver.close()
