"""The device's benchmark runs from end to end over the test double."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gristmill import runtime

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks/cuda_device.py"


def test_the_benchmark_prints_its_table(
    make_bundle: Callable[..., runtime.Bundle], library: Path
) -> None:
    bundle = make_bundle("ptx-sm_80", "cubin-sm_90")
    environment = os.environ | {"LD_LIBRARY_PATH": str(library.parent)}
    command = [sys.executable, SCRIPT, "--bundle", bundle.root, "--specialization", "s"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text in (
        "load of cubin-sm_90",
        "load of ptx-sm_80",
        "direct launch",
        "first result",
        "as declared",
    ):
        assert text in done.stdout
