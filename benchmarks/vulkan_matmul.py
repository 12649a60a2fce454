"""Matrix products by cooperative matrices through Vulkan beside PyTorch's (cuBLAS), in one process.

    python benchmarks/vulkan_matmul.py [--bundle artifacts] [--sizes 4096,8192] [--all]

Prints TFLOP/s of `matmul_fragments` on the Vulkan device and of torch.matmul, and their ratio;
every result is compared with torch's first. The kernel's times are timestamps of a timed recording,
torch's lie between two events; of both the best mean of several tries counts. --all: each variant
of the bundle that the device takes, not the first alone. Needs torch, the extra `vulkan` and a
bundle with spirv artifacts; PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
import timing

from gristmill import runtime
from gristmill.runtime.selection import lacking

WARM = 0.3  # seconds until the clocks stand
TRIES = 5
KINDS = (("f16", "float16"), ("bf16", "bfloat16"))


class Products:
    """The products of one size and type: factors on both sides, and torch's result."""

    def __init__(self, torch: Any, device: runtime.Device, n: int, name: str, dtype: str) -> None:
        self.torch, self.device, self.n, self.name = torch, device, n, name
        self.repeat = max(5, round(5e13 / (2 * n**3)))
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.a, self.b = (
            torch.randn(n, n, device="cuda", generator=generator).to(getattr(torch, dtype))
            for _ in range(2)
        )
        self.theirs = torch.matmul(self.a, self.b)
        self.given = [device.upload(self.bits(x), name) for x in (self.a, self.b)]
        self.given.append(device.allocate((n, n), name))

    def bits(self, x: Any) -> np.ndarray:
        """A tensor as the host has its elements: bf16 as patterns."""
        whole = x.cpu()
        if self.name == "bf16":
            return np.asarray(whole.view(self.torch.int16).numpy()).view(np.uint16)
        return np.asarray(whole.numpy())

    def torch_seconds(self) -> float:
        """Of one of torch's products."""

        def work() -> None:
            for _ in range(self.repeat):
                self.torch.matmul(self.a, self.b, out=self.theirs)

        return timing.on_device(self.torch, work, self.repeat, WARM)

    def our_seconds(self, kernel: runtime.LoadedKernel) -> float:
        """Of one of the kernel's products."""
        with self.device.record(timed=True) as recording:
            for _ in range(self.repeat):
                recording.launch(kernel, *self.given, self.n, self.n, self.n)
        end = time.perf_counter() + WARM
        while time.perf_counter() < end:
            recording.replay()
            self.device.synchronize()
        best = float("inf")
        for _ in range(TRIES):
            recording.replay()
            self.device.synchronize()
            best = min(best, float(recording.timestamps().mean()))
        recording.close()
        return best

    def off(self) -> float:
        """How far the two results are apart, relative to the largest element."""
        found = self.given[2].numpy().astype(np.float32)
        if self.name == "bf16":
            found = (self.given[2].numpy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        wanted = self.theirs.float().cpu().numpy()
        return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def variants(
    device: runtime.Device, bundle: runtime.Bundle, name: str, *, every: bool
) -> list[runtime.Artifact]:
    """The variants that the device takes, best first; those alone that are cooperative matrices."""
    has = device.capabilities
    found = [
        artifact
        for target in has.targets
        for artifact in bundle.artifacts("matmul_fragments", name)
        if artifact.manifest.target == target and not lacking(artifact.manifest, has)
        if artifact.manifest.constexprs.get("COOPERATIVE")
    ]
    return found if every else found[:1]


def tiles(kernel: runtime.LoadedKernel) -> str:
    """The constexprs that variants differ in."""
    names = ("BM", "BN", "BK", "WM", "WN", "STAGES", "BAND", "AHEAD")
    made = kernel.manifest.constexprs
    return " ".join(f"{name}={made[name]}" for name in names if name in made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--all", action="store_true", help="every variant of the bundle")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device(options.device) as device:
        has = device.capabilities
        print(f"{has.name}, {has.driver}, torch {torch.__version__}", flush=True)
        for n in map(int, options.sizes.split(",")):
            for name, dtype in KINDS:
                products = Products(torch, device, n, name, dtype)
                for artifact in variants(device, bundle, name, every=options.all):
                    begin = time.perf_counter()
                    kernel = device.load_artifact(bundle, artifact)
                    device.launch(kernel, *products.given, n, n, n)
                    device.synchronize()
                    loaded = time.perf_counter() - begin
                    off = products.off()
                    flops = 2 * n**3 * 1e-12
                    mine = flops / products.our_seconds(kernel)
                    other = flops / products.torch_seconds()
                    print(
                        f"{name:5} {n:6} {mine:7.1f} TFLOP/s  torch {other:7.1f}"
                        f"  ratio {mine / other:5.3f}  off {off:.1e}  loaded in {loaded:.2f} s"
                        f"  {tiles(kernel)}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
