"""f16 matrices times vectors beside copies of as many bytes, on a CUDA device: every variant that a
bundle has, and torch.

    python benchmarks/cuda_gemv.py [--bundle artifacts]

Matrices rotate, as many as no cache holds, and so do the targets and sources of copies. A copy is
the faster one of torch's out of a graph and in a stream. Times are the host's, of replays of 6 ms
or more with their wait, medians of three. Needs torch, cuda-bindings, a driver and a bundle;
PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from gristmill import runtime

SHAPES = ((4096, 14336), (14336, 4096), (4096, 4096), (4864, 896), (896, 4864), (152064, 3584))
COLD = 256 << 20  # bytes, of which no cache holds much
SAMPLE = 0.006  # seconds
WARM = 0.5
NAMES = ("BLOCK", "VEC", "ROWS", "DEEP", "TEAMS", "EARLY")


def median(run: Callable[[], Any], wait: Callable[[], Any], times: int) -> float:
    """Seconds of one of the `times` pieces of work that `run` queues."""

    def sample(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            run()
        wait()
        return (time.perf_counter() - begin) / count

    sample(1)
    count = min(200, int(SAMPLE / min(sample(1) for _ in range(2))) + 1)
    return sorted(sample(count) for _ in range(3))[1] / times


def in_graph(torch: Any, body: Callable[[int], Any], times: int) -> float:
    """Seconds of `body` out of a graph of torch's."""
    with torch.cuda.stream(torch.cuda.Stream()):
        body(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for n in range(times):
            body(n)
    return median(graph.replay, torch.cuda.synchronize, times)


def compare(torch: Any, device: Any, bundle: runtime.Bundle, rows: int, cols: int) -> None:
    """Print the times of copies, of torch and of all variants for one shape."""
    moved = 2 * rows * cols + 2 * cols + 4 * rows
    sets = max(2, min(64, -(-COLD // (2 * rows * cols))))
    times = -(-max(8, min(192, int(2e-3 / max(moved / 4.2e12, 3e-6)))) // sets) * sets
    half = moved // 2 // 256 * 256
    pairs = [
        [torch.empty(half, device="cuda", dtype=torch.uint8) for _ in "ab"] for _ in range(sets)
    ]

    def copy(n: int) -> None:
        pairs[n % sets][0].copy_(pairs[n % sets][1])

    def copies() -> None:
        for n in range(times):
            copy(n)

    f16 = {"device": "cuda", "dtype": torch.float16}
    matrices = [torch.randn(rows, cols, **f16) for _ in range(sets)]
    x, y, out = torch.randn(cols, **f16), torch.empty(rows, device="cuda"), torch.empty(rows, **f16)
    best = min(in_graph(torch, copy, times), median(copies, torch.cuda.synchronize, times))
    other = in_graph(torch, lambda n: torch.mv(matrices[n % sets], x, out=out), times)
    print(f"{rows} x {cols}: copy {best * 1e6:.2f} us, {moved / best / 1e12:.3f} TB/s, "
          f"torch {other * 1e6:.2f} us")  # fmt: skip
    given, source, target = [device.adopt(a) for a in matrices], device.adopt(x), device.adopt(y)
    want = matrices[(times - 1) % sets].float() @ x.float()
    for artifact in bundle.artifacts("gemv", "f16"):
        kernel = device.load_artifact(bundle, artifact)
        y.zero_()
        torch.cuda.synchronize()
        with device.record() as recording:
            for n in range(times):
                recording.launch(kernel, given[n % sets], source, target, cols)
        took = median(recording.replay, device.synchronize, times)
        off = float((y - want).abs().max() / want.abs().max())
        recording.close()
        point = {name: artifact.manifest.constexprs[name] for name in NAMES}
        print(f"  {took * 1e6:8.2f} us {moved / took / 1e12:.3f} TB/s ratio {best / took:.3f} "
              f"off {off:.1e} {point}", flush=True)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device("cuda") as device:
        print(
            f"{device.capabilities.name}, {device.capabilities.driver}, torch {torch.__version__}"
        )
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
        end = time.perf_counter() + WARM
        while time.perf_counter() < end:
            torch.matmul(a, a)
            torch.cuda.synchronize()
        for rows, cols in SHAPES:
            compare(torch, device, bundle, rows, cols)
    return 0


if __name__ == "__main__":
    sys.exit(main())
