"""Matrix products on tensor cores beside PyTorch's (cuBLAS), on a CUDA device.

    python benchmarks/cuda_matmul.py [--bundle artifacts] [--sizes 4096,8192]

Prints TFLOP/s of each kernel and of torch.matmul in the same run, and their ratio; every result is
compared with torch's first. Times are the device's, between two events. Needs torch, cuda-bindings,
a driver and a bundle; PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from gristmill import runtime

WARM = 0.3  # seconds until the clocks stand
KERNELS = (
    ("matmul_fragments", "f16", "float16"),
    ("matmul_fragments", "bf16", "bfloat16"),
    ("nv_matmul", "f16", "float16"),
    ("nv_matmul", "f16_pairs", "float16"),
    ("nv_matmul", "bf16", "bfloat16"),
)


def seconds(torch: Any, run: Callable[[], Any], times: int) -> float:
    """The best time of one of `times` products, of several tries; `run` queues them all."""
    end = time.perf_counter() + WARM
    while time.perf_counter() < end:
        run()
        torch.cuda.synchronize()
    best = float("inf")
    for _ in range(5):
        begin, finish = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        finish.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(finish) * 1e-3 / times)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="4096,8192")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device(options.device) as device:
        stream = torch.cuda.Stream()
        print(
            f"{device.capabilities.name}, {device.capabilities.driver}, torch {torch.__version__}"
        )
        for n in map(int, options.sizes.split(",")):
            for name, specialization, dtype in KERNELS:
                if specialization not in bundle.kernels().get(name, ()):
                    continue
                kind = getattr(torch, dtype)
                a, b = (torch.randn(n, n, device="cuda", dtype=kind) for _ in range(2))
                c, d = (torch.empty(n, n, device="cuda", dtype=kind) for _ in range(2))
                torch.cuda.synchronize()
                kernel = device.load(bundle, name, specialization)
                x, y, z = (device.adopt(t) for t in (a, b, c))
                repeat = max(5, round(2e14 / (2 * n**3)))
                with device.record() as recording:
                    for _ in range(repeat):
                        recording.launch(kernel, x, y, z, n, n, n)

                def ours(recording: Any = recording) -> None:
                    device.order_after(stream.cuda_stream)
                    recording.replay()
                    device.order_before(stream.cuda_stream)

                def theirs(a: Any = a, b: Any = b, d: Any = d, repeat: int = repeat) -> None:
                    for _ in range(repeat):
                        torch.matmul(a, b, out=d)

                with torch.cuda.stream(stream):
                    ours()
                    theirs()
                    torch.cuda.synchronize()
                    off = ((c.float() - d.float()).abs().max() / d.float().abs().max()).item()
                    flops = 2 * n**3 * 1e-12
                    mine = flops / seconds(torch, ours, repeat)
                    other = flops / seconds(torch, theirs, repeat)
                print(
                    f"{name:18} {specialization:9} {n:6} {mine:7.1f} TFLOP/s  torch {other:7.1f}"
                    f"  ratio {mine / other:5.3f}  off {off:.1e}  ({kernel.manifest.target})",
                    flush=True,
                )
                recording.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
