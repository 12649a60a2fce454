"""Matrix products on tensor cores beside PyTorch's (cuBLAS), on a CUDA device. Those of
8-bit floats stand beside torch._scaled_mm with fast accumulation, which sums as they do.

    python benchmarks/cuda_matmul.py [--bundle artifacts] [--sizes 4096,8192]

Prints TFLOP/s of each kernel and of torch.matmul in the same run, and their ratio; every result is
compared with torch's first. Times are the device's, between two events. Needs torch, cuda-bindings,
a driver and a bundle; PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import timing

from gristmill import runtime

WARM = 0.3  # seconds until the clocks stand
KERNELS = (
    ("matmul_fragments", "f16", "float16"),
    ("matmul_fragments", "bf16", "bfloat16"),
    ("nv_matmul", "f16", "float16"),
    ("nv_matmul", "f16_pairs", "float16"),
    ("nv_matmul", "bf16", "bfloat16"),
    ("nv_matmul", "f8e4m3", "float8_e4m3fn"),
    ("nv_matmul", "f8e4m3_pairs", "float8_e4m3fn"),
)


class Products:
    """The products of one size and type: two factors, and a place for each side's result."""

    def __init__(self, torch: Any, n: int, dtype: str) -> None:
        kind = getattr(torch, dtype)
        self.torch, self.n, self.narrow = torch, n, dtype.startswith("float8")
        self.repeat = max(5, round(2e14 / (2 * n**3)))
        self.a, self.b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
        kind = torch.bfloat16 if self.narrow else kind
        self.ours, self.theirs = (torch.empty(n, n, device="cuda", dtype=kind) for _ in range(2))
        self.one = torch.ones((), device="cuda")
        torch.cuda.synchronize()

    def multiply(self) -> None:
        """Queue torch's products. Of 8-bit floats, b is n x k, as both sides want it."""
        scaled = {"scale_a": self.one, "scale_b": self.one, "use_fast_accum": True}
        for _ in range(self.repeat):
            if self.narrow:
                kind = self.theirs.dtype
                self.torch._scaled_mm(self.a, self.b.t(), out_dtype=kind, out=self.theirs, **scaled)
            else:
                self.torch.matmul(self.a, self.b, out=self.theirs)

    def recorded(self, device: Any, kernel: runtime.LoadedKernel) -> runtime.Recording:
        """As many products of a kernel."""
        x, y, z = (device.adopt(t) for t in (self.a, self.b, self.ours))
        scale = [1.0] if any(p.name == "scale" for p in kernel.manifest.params) else []
        with device.record() as recording:
            for _ in range(self.repeat):
                recording.launch(kernel, x, y, z, self.n, self.n, self.n, *scale)
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
        mine = flops / timing.on_device(torch, ours, products.repeat, WARM)
        other = flops / timing.on_device(torch, products.multiply, products.repeat, WARM)
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
