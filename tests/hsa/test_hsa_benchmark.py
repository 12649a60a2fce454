"""What a submission costs the host, on the double; the benchmark runs from end to end."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from gristmill import runtime

SCRIPT = Path(__file__).parent.parent.parent / "benchmarks/hsa_device.py"


def test_the_benchmark_prints_its_table(bundle: runtime.Bundle) -> None:
    command = [sys.executable, SCRIPT, "--bundle", bundle.root, "--specialization", "s", "--double"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for text in (
        "load of hsaco-gfx1100",
        "replay of a block of 100 packets, best",
        "100 launches one by one, best",
        "a block is cheaper by a factor of",
        "download of 64 MiB",
    ):
        assert text in done.stdout


def test_a_block_costs_what_few_launches_cost(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    """The fastest of many submissions, of which a busy machine leaves some undisturbed. On a quiet
    one it is a few microseconds; launch by launch, the same block costs a hundred times one."""
    saxpy = device.load(bundle, "saxpy")
    x, y = (device.upload(np.ones(4, np.float32)) for _ in range(2))
    with device.record() as recording:
        for _ in range(100):
            recording.launch(saxpy, x, y, 0.0)
    blocks, singles = [], []
    for _ in range(200):
        start = time.perf_counter()
        recording.replay()
        middle = time.perf_counter()
        device.synchronize()
        again = time.perf_counter()
        for _ in range(100):
            device.launch(saxpy, x, y, 0.0)
        singles.append(time.perf_counter() - again)
        blocks.append(middle - start)
        device.synchronize()
    assert min(blocks) * 5 < min(singles)
    assert min(blocks) < 250e-6  # the figure is 25 on a quiet machine
