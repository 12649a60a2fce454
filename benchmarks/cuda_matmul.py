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


class Products:
    """The products of one size and type: two factors, and a place for each side's result."""

    def __init__(self, torch: Any, n: int, dtype: str) -> None:
        kind = getattr(torch, dtype)
        self.torch, self.n = torch, n
        self.repeat = max(5, round(2e14 / (2 * n**3)))
        self.a, self.b = (torch.randn(n, n, device="cuda", dtype=kind) for _ in range(2))
        self.ours, self.theirs = (torch.empty(n, n, device="cuda", dtype=kind) for _ in range(2))
        torch.cuda.synchronize()

    def multiply(self) -> None:
        """Queue torch's products."""
        for _ in range(self.repeat):
            self.torch.matmul(self.a, self.b, out=self.theirs)

    def recorded(self, device: Any, kernel: runtime.LoadedKernel) -> runtime.Recording:
        """As many products of a kernel."""
        x, y, z = (device.adopt(t) for t in (self.a, self.b, self.ours))
        with device.record() as recording:
            for _ in range(self.repeat):
                recording.launch(kernel, x, y, z, self.n, self.n, self.n)
        return recording

    def off(self) -> float:
        """How far the two results are apart, relative to the largest element."""
        ours, theirs = self.ours.float(), self.theirs.float()
        return float(((ours - theirs).abs().max() / theirs.abs().max()).item())


def compare(torch: Any, device: Any, kernel: runtime.LoadedKernel, products: Products) -> None:
    """Check a kernel's products and print both speeds."""
    stream = torch.cuda.Stream()
    recording = products.recorded(device, kernel)

    def ours() -> None:
        device.order_after(stream.cuda_stream)
        recording.replay()
        device.order_before(stream.cuda_stream)

    with torch.cuda.stream(stream):
        ours()
        products.multiply()
        torch.cuda.synchronize()
        off = products.off()
        flops = 2 * products.n**3 * 1e-12
        mine = flops / seconds(torch, ours, products.repeat)
        other = flops / seconds(torch, products.multiply, products.repeat)
    made = kernel.manifest
    print(
        f"{made.kernel:18} {made.specialization:9} {products.n:6} {mine:7.1f} TFLOP/s"
        f"  torch {other:7.1f}  ratio {mine / other:5.3f}  off {off:.1e}  ({made.target})",
        flush=True,
    )
    recording.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", default="4096,8192")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device(options.device) as device:
        has = device.capabilities
        print(f"{has.name}, {has.driver}, torch {torch.__version__}")
        for n in map(int, options.sizes.split(",")):
            for name, specialization, dtype in KERNELS:
                if specialization in bundle.kernels().get(name, ()):
                    kernel = device.load(bundle, name, specialization)
                    compare(torch, device, kernel, Products(torch, n, dtype))
    return 0


if __name__ == "__main__":
    sys.exit(main())
