"""Attention of one token to a paged KV cache, beside a copy on the device.

    python benchmarks/cuda_attention.py [--bundle artifacts]

Prints, for each specialization, number of sequences and of their keys, the time of
`attention_decode` with `attention_merge` out of a recording of 20, and the rate of the bytes of
keys and values over that of a copy of 1 GiB (both of its directions counted), for the best number
of splits. Results of the smaller ones are compared with torch first. Needs torch, cuda-bindings, a
driver and a bundle.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import timing

from gristmill import runtime

WARM, REPEAT, PAGE, KV_HEADS = 0.3, 20, 16, 8
SHAPES = ((1, 1024), (1, 8192), (1, 32768), (1, 131072), (32, 1024), (32, 8192), (32, 32768))
# Specialization, that of the merge, bits of the cache, HEAD_DIM, heads that share one of the cache.
KERNELS = (
    ("f16_128", "f16_128", "float16", 128, 1),
    ("f16_128", "f16_128", "float16", 128, 4),
    ("f16_128_fours", "f16_128", "float16", 128, 4),
    ("f16_128_fours", "f16_128", "float16", 128, 8),
    ("f16_64", "f16_64", "float16", 64, 3),
    ("f8e4m3_128", "f16_128", "float8_e4m3fn", 128, 1),
)


def copy_rate(torch: Any) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB on the device."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)

    def copies() -> None:
        for _ in range(5):
            target.copy_(source)

    return 2 * source.numel() / timing.on_device(torch, copies, 5, WARM)


class Decoding:
    """One step of `batch` sequences of `length` keys."""

    def __init__(self, torch: Any, row: tuple[str, str, str, int, int], batch: int, length: int):
        self.torch, self.batch, self.length = torch, batch, length
        self.dim, self.heads = row[3], row[4] * KV_HEADS
        kind = getattr(torch, row[2])
        self.pages = length // PAGE
        shape = (batch * self.pages, KV_HEADS, PAGE, self.dim)
        self.k, self.v = (
            torch.randn(shape, device="cuda", dtype=torch.float16).to(kind) for _ in range(2)
        )
        order = torch.randperm(batch * self.pages, device="cuda").to(torch.int32)
        self.table = order.reshape(batch, self.pages)
        self.lengths = torch.full((batch,), length, device="cuda", dtype=torch.int32)
        self.q = torch.randn(batch, self.heads, self.dim, device="cuda", dtype=torch.float16)
        self.y = torch.zeros_like(self.q)

    @property
    def bytes(self) -> int:
        return 2 * self.k.numel() * self.k.element_size()

    def off(self) -> float:
        """How far y is from torch's attention in f32."""
        rows = self.table.long()
        k, v = (
            x.float()[rows].transpose(1, 2).reshape(self.batch, KV_HEADS, -1, self.dim)
            for x in (self.k, self.v)
        )
        q = self.q.float().reshape(self.batch, KV_HEADS, -1, self.dim)
        weights = (q @ k.transpose(2, 3) * self.dim**-0.5).softmax(-1)
        return float((weights @ v - self.y.float().reshape(q.shape)).abs().max().item())

    def run(self, device: Any, decode: Any, merge: Any, splits: int) -> Callable[[], None]:
        """A function that queues REPEAT steps on torch's stream."""
        torch, rows = self.torch, (self.batch, self.heads, splits)
        kept = (
            torch.zeros(*rows, self.dim, device="cuda"),
            torch.zeros(*rows, 2, device="cuda"),
        )
        torch.cuda.synchronize()
        tensors = (self.q, self.k, self.v, self.table, self.lengths)
        inputs = [device.adopt(t) for t in tensors]
        y, partial, stats = (device.adopt(t) for t in (self.y, *kept))
        numbers = (self.heads, KV_HEADS, splits, -(-self.pages // splits), 0)
        with device.record() as recording:
            for _ in range(REPEAT):
                recording.launch(
                    decode, *inputs, device.allocate(0, "f32"), y, partial, stats, *numbers,
                    self.dim**-0.5, 0.0, 1.0, 1.0,
                )  # fmt: skip
                if splits > 1:
                    recording.launch(merge, partial, stats, y, splits)

        def queue() -> None:
            stream = torch.cuda.current_stream().cuda_stream
            device.order_after(stream)
            recording.replay()
            device.order_before(stream)

        return queue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    options = parser.parse_args()
    import torch  # type: ignore[import-not-found]

    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device("cuda") as device, torch.cuda.stream(torch.cuda.Stream()):
        has, rate = device.capabilities, copy_rate(torch)
        print(f"{has.name}, {has.driver}, torch {torch.__version__}; copy {rate / 1e12:.3f} TB/s")
        for row in KERNELS:
            decode = device.load(bundle, "attention_decode", row[0])
            merge = device.load(bundle, "attention_merge", row[1])
            for batch, length in SHAPES:
                step = Decoding(torch, row, batch, length)
                if step.k.numel() >= 2**31:
                    continue  # beyond the index type
                times = {}
                for splits in (1, 2, 4, 8, 16, 33, 66, 132):
                    if splits > step.pages or not 64 <= splits * batch * KV_HEADS <= 4224:
                        continue
                    queue = step.run(device, decode, merge, splits)
                    queue()
                    times[splits] = timing.on_device(torch, queue, REPEAT)
                splits = min(times, key=lambda n: times[n])
                off = f"{step.off():.1e}" if step.k.numel() < 2**26 else ""
                share = step.bytes / times[splits] / rate
                print(
                    f"{row[0]:14} heads {row[4]} x {KV_HEADS}  {batch:3} x {length:6} keys  "
                    f"{times[splits] * 1e6:8.1f} us  {share:5.3f} of a copy  "
                    f"{splits:3} splits  off {off}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
