"""The tests that every device passes, on HSA with the emulator behind the double."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_the_suite_of_all_devices_passes(
    arch: str, tmp_path: Path, require: Callable[..., None]
) -> None:
    require("gcc")
    require("llvm-objdump")
    make = [sys.executable, str(HERE / "emulated_suite.py"), str(tmp_path), arch]
    subprocess.run(make, check=True)
    environment = os.environ | {
        "HSA_ARCH": arch,
        "GRISTMILL_TEST_DEVICE": "hsa",
        "GRISTMILL_TEST_BUNDLE": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    options = ["-q", "-p", "emulated_suite", "-p", "no:cacheprovider", "-k", "hardware"]
    command = [sys.executable, "-m", "pytest", *options, str(HERE.parent / "runtime")]
    done = subprocess.run(
        command, env=environment, cwd=HERE.parents[1], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed, \d+ deselected", done.stdout)
    assert passed, done.stdout[-500:]  # and none skipped
    assert int(passed[1]) >= 100
