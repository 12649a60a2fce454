"""One token of a small language model on a CUDA device: all its launches in one recording.

    python benchmarks/cuda_decode_step.py [--bundle artifacts] [--context 2048] [--splits 8]

Shapes are Qwen2.5-0.5B's in f16, weights are random, and the place in the cache stays the same.
Prints tokens a second of a recording's replays, the time that weights, keys and values need at the
rate of the driver's copy, and the time of each kind of launch out of a timed recording, whose
launches wait for each other. Needs numpy, cuda-bindings, a driver and a bundle with the kernels
that `step` names (`scons target=cubin`); PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from cuda_kernels import copy_rate, seconds

from gristmill import runtime
from gristmill.kernels.rotary import frequencies, table

PAGE = 16
GROUPS = 264  # of the first step of argmax


@dataclass(frozen=True)
class Shape:
    """Sizes of a model of Llama's kind; with biases of queries, keys and values."""

    hidden: int = 896
    layers: int = 24
    heads: int = 14
    kv_heads: int = 2
    head: int = 64
    inner: int = 4864
    vocabulary: int = 151936

    @property
    def packed(self) -> int:
        """Elements of queries, keys and values of a token."""
        return (self.heads + 2 * self.kv_heads) * self.head

    @property
    def weights(self) -> int:
        """Bytes of matrices that a token reads; the embedding is the last one."""
        attention = self.hidden * (self.packed + self.heads * self.head)
        layer = attention + 3 * self.hidden * self.inner
        return 2 * (self.layers * layer + self.vocabulary * self.hidden)


class Model:
    """Kernels and buffers of one token."""

    def __init__(self, device: Any, bundle: Any, shape: Shape, context: int, name: str) -> None:
        self.device, self.shape, self.context, self.attention = device, shape, context, name
        self.rng = np.random.default_rng(1)
        self.kinds: list[str] = []  # of the launches in order
        self.loaded: dict[tuple[str, str], Any] = {}
        self.bundle = bundle
        s = shape
        self.embedding = self.matrix(s.vocabulary, s.hidden)
        self.layers = [self.layer() for _ in range(s.layers)]
        self.norm = self.vector(s.hidden)
        pages = -(-context // PAGE)
        numbers = self.rng.permutation(pages).astype(np.int32)
        self.table = device.upload(numbers)
        self.angles = device.upload(table(frequencies(s.head, 1e6), context))
        self.position = device.upload(np.array([context - 1], np.int32))
        self.sequence = device.upload(np.zeros(1, np.int32))
        self.length = device.upload(np.array([context], np.int32))
        self.token = device.upload(np.zeros(1, np.int32))
        self.slopes = device.allocate(0, "f32")
        half = {
            "residual": s.hidden,
            "x": s.hidden,
            "qkv": s.packed,
            "biased": s.packed,
            "mixed": s.heads * s.head,
        }
        half |= {"part": s.hidden, "both": 2 * s.inner, "gate": s.inner}
        self.at = {n: device.allocate(count, "f16") for n, count in half.items()}
        self.logits = device.allocate(s.vocabulary, "f32")
        self.values = device.allocate(GROUPS, "f32")
        self.indices = device.allocate(GROUPS, "i32")

    def matrix(self, rows: int, cols: int) -> Any:
        buffer = self.device.allocate(rows * cols, "f16")
        some = (self.rng.standard_normal(1 << 20) * cols**-0.5).astype(np.float16)
        for start in range(0, buffer.count, some.size):
            part = some[: buffer.count - start]
            buffer.view(start, len(part)).write(part)
        return buffer

    def vector(self, count: int) -> Any:
        return self.device.upload(self.rng.uniform(0.5, 1.5, count).astype(np.float16))

    def layer(self) -> dict[str, Any]:
        s, pages = self.shape, -(-self.context // PAGE)
        cache = pages * s.kv_heads * PAGE, s.head
        return {
            "before": self.vector(s.hidden),
            "qkv": self.matrix(s.packed, s.hidden),
            "bias": self.vector(s.packed),
            "k": self.matrix(*cache),
            "v": self.matrix(*cache),
            "out": self.matrix(s.hidden, s.heads * s.head),
            "after": self.vector(s.hidden),
            "both": self.matrix(2 * s.inner, s.hidden),
            "down": self.matrix(s.hidden, s.inner),
        }

    def launch(self, kind: str, kernel: str, specialization: str, *args: Any) -> None:
        key = kernel, specialization
        if key not in self.loaded:
            self.loaded[key] = self.device.load(self.bundle, kernel, specialization)
        self.recording.launch(self.loaded[key], *args)
        self.kinds.append(kind)

    def times(self, kind: str, weights: Any, x: Any, y: Any, cols: int) -> None:
        self.launch(f"{kind} {y.count} x {cols}", "gemv", "f16_f16", weights, x, y, cols)

    def attend(self, layer: dict[str, Any], splits: int, scratch: tuple[Any, ...]) -> None:
        s, at = self.shape, self.at
        turned = at["biased"].view(0, (s.heads + s.kv_heads) * s.head)
        self.launch("rotary", "rotary", "half_f16", turned, self.position, self.angles, turned,
                    s.heads + s.kv_heads, s.head, s.head)  # fmt: skip
        q = at["biased"].view(0, s.heads * s.head)
        k, v = (at["biased"].view((s.heads + n * s.kv_heads) * s.head, s.kv_heads * s.head)
                for n in range(2))  # fmt: skip
        pages = self.table.count
        self.launch("cache_append", "cache_append", "f16", k, v, layer["k"], layer["v"], self.table,
                    self.sequence, self.position, s.kv_heads, s.head, PAGE, pages, 1.0,
                    1.0)  # fmt: skip
        self.launch("attention", self.attention, "f16_64", q, layer["k"], layer["v"], self.table,
                    self.length, self.slopes, at["mixed"], *scratch, s.heads, s.kv_heads, splits,
                    -(-pages // splits), 0, s.head**-0.5, 0.0, 1.0, 1.0)  # fmt: skip

    def step(self, splits: int, timed: bool) -> Any:
        """A recording of one token."""
        s, at, device = self.shape, self.at, self.device
        self.kinds = []
        rows = s.heads * splits
        scratch = device.allocate(rows * s.head, "f32"), device.allocate(rows * 2, "f32")
        counts = device.upload(np.zeros(s.kv_heads * -(-s.heads // s.kv_heads), np.uint32))
        with device.record(timed=timed) as recording:
            self.recording = recording
            self.launch("embedding", "gather", "f16", self.embedding, self.token, at["residual"],
                        s.hidden)  # fmt: skip
            first = self.layers[0]["before"]
            self.launch("norm", "rmsnorm", "f16", at["residual"], first, at["x"], s.hidden, 1e-6)
            following = [*(layer["before"] for layer in self.layers[1:]), self.norm]
            for layer, norm in zip(self.layers, following, strict=True):
                self.times("q k v", layer["qkv"], at["x"], at["qkv"], s.hidden)
                self.launch("bias", "binary", "add_f16", at["qkv"], layer["bias"],
                            at["biased"])  # fmt: skip
                self.attend(layer, splits, (*scratch, counts))
                self.times("out", layer["out"], at["mixed"], at["part"], s.heads * s.head)
                self.launch("norm", "rmsnorm_residual", "f16", at["part"], at["residual"],
                            layer["after"], at["x"], s.hidden, 1e-6)  # fmt: skip
                self.times("gate and up", layer["both"], at["x"], at["both"], s.hidden)
                self.launch("gated", "gated_packed", "swiglu_f16", at["both"], at["gate"], s.inner)
                self.times("down", layer["down"], at["gate"], at["part"], s.inner)
                self.launch("norm", "rmsnorm_residual", "f16", at["part"], at["residual"], norm,
                            at["x"], s.hidden, 1e-6)  # fmt: skip
            self.launch(f"logits {s.vocabulary} x {s.hidden}", "gemv", "f16", self.embedding,
                        at["x"], self.logits, s.hidden)  # fmt: skip
            self.launch("argmax", "argmax_partials", "f32", self.logits, self.values, self.indices)
            self.launch("argmax, merge", "argmax_merge", "f32", self.values, self.indices,
                        self.token)  # fmt: skip
        return recording


def table_of(kinds: list[str], times: list[float]) -> None:
    """Print what each kind of launch takes together, and one of them."""
    found: dict[str, list[float]] = defaultdict(list)
    for kind, took in zip(kinds, times, strict=True):
        found[kind].append(took)
    for kind, some in sorted(found.items(), key=lambda item: -sum(item[1])):
        median = sorted(some)[len(some) // 2]
        print(f"  {kind:28} {len(some):3} x {median * 1e6:6.2f} us {sum(some) * 1e6:8.1f} us")
    print(f"  {'all':28} {len(times):3} launches  {sum(times) * 1e6:10.1f} us")


def measure(model: Model, splits: int, copy: float) -> None:
    """Print the figures of one number of splits."""
    s = model.shape
    keys = 4 * s.layers * model.context * s.kv_heads * s.head
    floor = (s.weights + keys) / copy
    recording = model.step(splits, False)
    took = seconds(model.device, recording.replay, 1)
    recording.close()
    print(f"{model.attention}, splits {splits}: {took * 1e6:.1f} us, {1 / took:.0f} tokens/s; "
          f"floor {floor * 1e6:.1f} us, {floor / took:.3f} of it", flush=True)  # fmt: skip
    timed = model.step(splits, True)
    for _ in range(3):
        timed.replay()
    table_of(model.kinds, timed.timestamps())
    timed.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--splits", default="8", help="several, separated by commas")
    parser.add_argument("--attention", default="nv_attention_decode")
    options = parser.parse_args()
    bundle = runtime.open_bundle(options.bundle)
    with runtime.open_device(options.device) as device:
        print(f"{device.capabilities.name}, {device.capabilities.driver}")
        copy = copy_rate(device, 1 << 31)
        print(f"copy {copy / 1e12:.3f} TB/s")
        for name in options.attention.split(","):
            model = Model(device, bundle, Shape(), options.context, name)
            for splits in options.splits.split(","):
                measure(model, int(splits), copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
