"""All kernels for the processor and for Vulkan, as the sources make them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gristmill import runtime

ROOT = Path(__file__).parents[2]
TARGETS = "cpu-x86-64-v3,cpu-x86-64-v4,spirv-vulkan1.1"


@pytest.fixture(scope="session")
def bundle(store_of_builds: Path, tmp_path_factory: pytest.TempPathFactory) -> runtime.Bundle:
    """Made once."""
    out = tmp_path_factory.mktemp("onnx")
    command = [sys.executable, "-m", "SCons", "-Q", f"target={TARGETS}", f"out={out}"]
    environment = {**os.environ, "GRISTMILL_STORE": str(store_of_builds)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return runtime.open_bundle(out)
