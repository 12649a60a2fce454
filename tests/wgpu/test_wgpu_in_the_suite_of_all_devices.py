"""The tests that every device passes, on wgpu over each software driver."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from wgpu_processes import TESTS, environment


def test_the_suite_of_all_devices_passes(driver: str, bundle_of_samples: Path) -> None:
    surroundings = environment(driver) | {
        "GRISTMILL_TEST_DEVICE": "wgpu",
        "GRISTMILL_TEST_BUNDLE": str(bundle_of_samples),
    }
    options = ["-q", "-p", "no:cacheprovider", "-k", "hardware"]
    command = [sys.executable, "-m", "pytest", *options, str(TESTS / "runtime")]
    done = subprocess.run(
        command, env=surroundings, cwd=TESTS.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed, \d+ deselected", done.stdout)
    assert passed, done.stdout[-500:]  # and none skipped
    assert int(passed[1]) >= 100
