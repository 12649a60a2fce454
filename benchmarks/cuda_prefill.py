"""Causal attention of whole sequences beside PyTorch's, on a CUDA device.

    python benchmarks/cuda_prefill.py [--bundle artifacts]

Prints TFLOP/s (half of 4 n^2 d for each head) of `attention_prefill` over a paged cache and of
torch.nn.functional.scaled_dot_product_attention over contiguous tensors, by its own choice, by
FlashAttention and by cuDNN, of 16,384 tokens in sequences of three lengths; every result is
compared with torch's first. Needs torch, cuda-bindings, a driver and a bundle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import timing

from gristmill import runtime

WARM, REPEAT = 0.3, 4
TOKENS, HEADS, DIM, PAGE = 16384, 16, 128, 16
LENGTHS = (2048, 4096, 16384)


class Sequences:
    """Queries, keys and values of TOKENS tokens, as torch and as the kernel want them."""

    def __init__(self, torch: Any, length: int) -> None:
        self.torch, self.length, self.batch = torch, length, TOKENS // length
        shape = (self.batch, HEADS, length, DIM)
        self.q, self.k, self.v = (
            torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3)
        )
        self.work = 4 * length * length * DIM * HEADS * self.batch / 2 * 1e-12

    def theirs(self) -> Any:
        """torch's attention."""
        attend = self.torch.nn.functional.scaled_dot_product_attention
        return attend(self.q, self.k, self.v, is_causal=True)

    def paged(self, x: Any, order: Any) -> Any:
        """Keys or values with page n at place order[n]."""
        pages = x.reshape(self.batch, HEADS, -1, PAGE, DIM).transpose(1, 2).contiguous()
        placed = self.torch.empty_like(pages).reshape(-1, HEADS, PAGE, DIM)
        placed[order] = pages.reshape(-1, HEADS, PAGE, DIM)
        return placed

    def ours(self, device: Any, kernel: Any) -> tuple[Callable[[], None], Any]:
        """A function that queues REPEAT launches on torch's stream, and where their result is."""
        torch, i32 = self.torch, self.torch.int32
        order = torch.randperm(TOKENS // PAGE, device="cuda")
        starts = torch.arange(self.batch + 1, device="cuda") * self.length
        y = torch.zeros(TOKENS, HEADS, DIM, device="cuda", dtype=torch.float16)
        tensors = (
            self.q.transpose(1, 2).reshape(TOKENS, HEADS, DIM).contiguous(),
            self.paged(self.k, order),
            self.paged(self.v, order),
            order.to(i32).reshape(self.batch, -1),
            torch.full((self.batch,), self.length, device="cuda", dtype=i32),
            starts.to(i32),
            y,
        )
        torch.cuda.synchronize()
        buffers = [device.adopt(t) for t in tensors]
        numbers = (HEADS, HEADS, self.length, 0, 1, DIM**-0.5, 0.0)
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


def compare(torch: Any, device: Any, kernel: Any, length: int) -> None:
    """Check the kernel and print all rates of one length."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    sequences = Sequences(torch, length)
    expected = sequences.theirs().transpose(1, 2).reshape(TOKENS, HEADS, DIM)
    queue, y = sequences.ours(device, kernel)
    queue()
    torch.cuda.synchronize()
    off = float((y.float() - expected.float()).abs().max().item())
    found = {"own choice": sequences.rate(sequences.repeated)}
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for name, backend in backends.items():
        with sdpa_kernel(backend):
            found[name] = sequences.rate(sequences.repeated)
    mine = sequences.rate(queue)
    theirs = "  ".join(f"{name} {rate:6.1f}" for name, rate in found.items())
    ratio = mine / max(found.values())
    print(
        f"{length:6} tokens  {mine:6.1f} TFLOP/s  torch: {theirs}  ratio {ratio:5.3f}"
        f"  off {off:.1e}  ({kernel.manifest.target})",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device("cuda") as device, torch.cuda.stream(torch.cuda.Stream()):
        print(
            f"{device.capabilities.name}, {device.capabilities.driver}, torch {torch.__version__}"
        )
        kernel = device.load(bundle, "attention_prefill", "f16_128")
        for length in LENGTHS:
            compare(torch, device, kernel, length)
    return 0


if __name__ == "__main__":
    sys.exit(main())
