"""Start-up: importing the runtime over numpy, a process to its first result, replay per kernel.

    python benchmarks/startup.py

Needs `scons target=cpu`. Wall times of fresh processes, the best of several; a replay of 100
recorded kernels of 256 elements each is timed in one process.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from gristmill import runtime

FIRST = """
import numpy as np
from gristmill import runtime
bundle = runtime.open_bundle("artifacts")
with runtime.open_device("cpu") as device:
    x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
    device.load(bundle, "saxpy", "f32")(x, y, 2.0)
    assert (y == 3).all()
"""


def processes(codes: list[str], tries: int = 20) -> list[float]:
    """Wall times in milliseconds of fresh Pythons, the best of several each, in turns."""
    best = [float("inf")] * len(codes)
    for _ in range(tries):
        for n, code in enumerate(codes):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            best[n] = min(best[n], (time.perf_counter() - start) * 1e3)
    return best


def replay() -> float:
    """Microseconds per kernel of a replayed recording of 100."""
    bundle = runtime.open_bundle("artifacts")
    with runtime.open_device("cpu") as device:
        x, y = (device.upload(np.ones(256, np.float32)) for _ in range(2))
        kernel = device.load(bundle, "saxpy", "f32")
        with device.record() as recording:
            for _ in range(100):
                recording.launch(kernel, x, y, 1.0)
        best = float("inf")
        for _ in range(300):
            start = time.perf_counter()
            recording.replay()
            device.synchronize()
            best = min(best, (time.perf_counter() - start) * 1e4)
        return best


def main() -> int:
    with_runtime = "import numpy, gristmill.runtime"
    bare, numpy, imported, first = processes(["pass", "import numpy", with_runtime, FIRST])
    print(f"python                            {bare:7.1f} ms")
    print(f"import numpy                      {numpy - bare:7.1f} ms over python")
    print(f"import gristmill.runtime          {imported - numpy:7.1f} ms over numpy (bound 30)")
    print(f"process start to first result     {first:7.1f} ms (bound 300)")
    print(f"replay of 100 recorded kernels    {replay():7.3f} us each (bound 1)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
