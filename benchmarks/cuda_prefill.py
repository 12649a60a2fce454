"""Causal attention of whole sequences beside PyTorch's, on a CUDA device.

    python benchmarks/cuda_prefill.py [--bundle artifacts] [--only f16_128]

Prints TFLOP/s (half of 4 n^2 d for each head) of `nv_attention_prefill` and `attention_prefill`
over a paged cache and of torch.nn.functional.scaled_dot_product_attention over contiguous tensors,
by its own choice, by FlashAttention and by cuDNN, of 16,384 tokens in sequences of three lengths;
every result is compared with torch's first. Needs torch, cuda-bindings, a driver and a bundle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import timing

from gristmill import runtime

WARM, REPEAT = 0.3, 4
TOKENS, HEADS, PAGE = 16384, 16, 16
LENGTHS = (2048, 4096, 16384)
KERNELS = ("nv_attention_prefill", "attention_prefill")
SPECIALIZATIONS = {"f16_128": 128, "bf16_128": 128, "f16_64": 64}


class Sequences:
    """Queries, keys and values of TOKENS tokens, as torch and as the kernel want them."""

    def __init__(self, torch: Any, length: int, specialization: str) -> None:
        self.torch, self.length, self.batch = torch, length, TOKENS // length
        self.dim = SPECIALIZATIONS[specialization]
        self.dtype = torch.bfloat16 if specialization.startswith("bf16") else torch.float16
        shape = (self.batch, HEADS, length, self.dim)
        self.q, self.k, self.v = (
            torch.randn(shape, device="cuda", dtype=self.dtype) for _ in range(3)
        )
        self.work = 4 * length * length * self.dim * HEADS * self.batch / 2 * 1e-12

    def theirs(self) -> Any:
        """torch's attention."""
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return attend(self.q, self.k, self.v, is_causal=True)

    def paged(self, x: Any, order: Any) -> Any:
        """Keys or values with page n at place order[n]."""
        pages = x.reshape(self.batch, HEADS, -1, PAGE, self.dim).transpose(1, 2).contiguous()
        placed = self.torch.empty_like(pages).reshape(-1, HEADS, PAGE, self.dim)
        placed[order] = pages.reshape(-1, HEADS, PAGE, self.dim)
        return placed

    def ours(self, device: Any, kernel: Any) -> tuple[Callable[[], None], Any]:
        """A function that queues REPEAT launches on torch's stream, and where their result is."""
        torch, i32 = self.torch, self.torch.int32
        order = torch.randperm(TOKENS // PAGE, device="cuda")
        starts = torch.arange(self.batch + 1, device="cuda") * self.length
        y = torch.zeros(TOKENS, HEADS, self.dim, device="cuda", dtype=self.dtype)
        tensors = (
            self.q.transpose(1, 2).reshape(TOKENS, HEADS, self.dim).contiguous(),
            self.paged(self.k, order),
            self.paged(self.v, order),
            order.to(i32).reshape(self.batch, -1),
            torch.full((self.batch,), self.length, device="cuda", dtype=i32),
            starts.to(i32),
            y,
        )
        torch.cuda.synchronize()
        buffers = [device.adopt(t) for t in tensors]
        numbers = (HEADS, HEADS, self.length, 0, 1, self.dim**-0.5, 0.0)
        with device.record() as recording:
            for _ in range(REPEAT):
                recording.launch(kernel, *buffers, *numbers)

        def queue() -> None:
            stream = torch.cuda.current_stream().cuda_stream
            device.order_after(stream)
            recording.replay()
            device.order_before(stream)

        return queue, y

    def repeated(self) -> None:
        """Queue REPEAT of them."""
        for _ in range(REPEAT):
            self.theirs()

    def rate(self, run: Callable[[], Any]) -> float:
        """TFLOP/s of what `run` queues REPEAT times."""
        return self.work / timing.on_device(self.torch, run, REPEAT, WARM)


def compare(torch: Any, device: Any, kernels: list[Any], length: int) -> None:
    """Check the kernels, of one specialization, and print all rates of one length."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sequences = Sequences(torch, length, kernels[0].manifest.specialization)
    expected = sequences.theirs().transpose(1, 2).reshape(TOKENS, HEADS, sequences.dim)
    found = {"own choice": sequences.rate(sequences.repeated)}
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for name, backend in backends.items():
        with sdpa_kernel(backend):
            found[name] = sequences.rate(sequences.repeated)
    theirs = "  ".join(f"{name} {rate:6.1f}" for name, rate in found.items())
    what = f"{kernels[0].manifest.specialization:8} {length:6} tokens"
    print(f"{what}  torch: {theirs} TFLOP/s", flush=True)
    for kernel in kernels:
        queue, y = sequences.ours(device, kernel)
        queue()
        torch.cuda.synchronize()
        off = float((y.float() - expected.float()).abs().max().item())
        mine = sequences.rate(queue)
        print(
            f"    {kernel.manifest.kernel:20}  {mine:6.1f} TFLOP/s"
            f"  ratio {mine / max(found.values()):5.3f}  off {off:.1e}  ({kernel.manifest.target})",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--only", choices=SPECIALIZATIONS)
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device("cuda") as device, torch.cuda.stream(torch.cuda.Stream()):
        print(
            f"{device.capabilities.name}, {device.capabilities.driver}, torch {torch.__version__}"
        )
        for name in [options.only] if options.only else SPECIALIZATIONS:
            kernels = [device.load(bundle, kernel, name) for kernel in KERNELS]
            for length in LENGTHS:
                compare(torch, device, kernels, length)
    return 0


if __name__ == "__main__":
    sys.exit(main())
