"""`gristmill demo`: nearest words in a real embedding table, computed by the shipped kernels.

Each step is timed and its result is held against the kernels' references: the demo shows nothing
that the oracle would not have given.
"""

from __future__ import annotations

import argparse
import difflib
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from .. import runtime
from ..ir.dtypes import DTYPES
from ..kernels import families
from ..kernels.family import compare
from . import embeddings
from .errors import CHECK_FAILED, CommandError
from .table import milliseconds

T = TypeVar("T")
KERNELS = ("rmsnorm", "gemv", "topk")
HARDWARE = ("discrete", "integrated", "virtual")


class Steps:
    """Runs named steps and tells how long each took."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def __call__(self, name: str, work: Callable[[], T], note: Callable[[T], str] = str) -> T:
        begin = time.perf_counter()
        value = work()
        seconds = time.perf_counter() - begin
        text = note(value)
        print(f"  {name:<34}{milliseconds(seconds):>12}  {text}".rstrip())
        return value


def demo(arguments: argparse.Namespace) -> int:
    """The command."""
    steps = Steps()
    print("gristmill demo")
    table, words, _ = steps(
        "read the embedding table", embeddings.load, lambda r: f"{r[0].shape} from {r[2]}"
    )
    wanted = [find(word, words) for word in arguments.words]
    bundle = steps(
        "open the bundle",
        lambda: runtime.open_bundle(arguments.bundle),
        lambda b: f"{len(b)} artifacts",
    )
    device = steps(
        "open the device",
        lambda: opened(arguments.device),
        lambda d: f"{d.capabilities.device}: {d.capabilities.name}",
    )
    with device:
        neighbours = Neighbours(device, bundle, table, steps)
        for row in wanted:
            names = neighbours.of(row, words, arguments.count)
            print(f"\n  {words[row]}: " + ", ".join(f"{n} {s:.2f}" for n, s in names) + "\n")
    if steps.wrong:
        print("not equal to the oracle: " + "; ".join(steps.wrong))
        return CHECK_FAILED
    print("every result is equal to the oracle within its bound")
    return 0


def opened(device: str | None) -> runtime.Device:
    """The device that is named, else the best one."""
    return runtime.open_device(device) if device else best_device()


def best_device() -> runtime.Device:
    """A real GPU where there is one, else the CPU: Vulkan drivers in software rank below it."""
    try:
        device = runtime.open_device("vulkan")
    except runtime.NoDevice:
        return runtime.open_device("cpu")
    if str(device.capabilities.facts.get("type")) in HARDWARE:
        return device
    device.close()
    return runtime.open_device("cpu")


def find(word: str, words: list[str]) -> int:
    """The row of a word; CommandError with the nearest words that have one."""
    if word in words:
        return words.index(word)
    if word.lower() in words:
        return words.index(word.lower())
    near = difflib.get_close_matches(word.lower(), words, 3)
    hint = f"; near it are {', '.join(near)}" if near else ""
    raise CommandError(f"the table has no row for {word!r}{hint}")


class Neighbours:
    """A table with rows of length one on a device, and the search for a row's neighbours."""

    def __init__(
        self, device: runtime.Device, bundle: runtime.Bundle, table: np.ndarray, steps: Steps
    ) -> None:
        self.device, self.steps = device, steps
        self.rows, self.cols = table.shape
        self.rmsnorm, self.gemv, self.topk = steps(
            "load three kernels",
            lambda: [device.load(bundle, name, "f32") for name in KERNELS],
            lambda kernels: ", ".join(k.manifest.target for k in kernels[:1]),
        )
        # A row over its root mean square has length sqrt(cols); the weight makes that 1.
        weight = np.full(self.cols, 1 / np.sqrt(self.cols), np.float32)
        source = steps(
            "upload it", lambda: self._upload(table), lambda _: f"{table.nbytes >> 20} MiB"
        )
        scale = self._upload(weight)
        self.table = device.allocate(table.shape, "f32")
        args = (source, scale, self.table, self.cols, 1e-12)
        steps("normalise its rows", lambda: self._launch(self.rmsnorm, *args), self._nothing)
        self.host = self.table.numpy()
        host = {"x": table, "weight": weight, "y": self.host, "cols": self.cols, "eps": 1e-12}
        self._judge("normalise", self.rmsnorm, host)

    def of(self, row: int, words: list[str], count: int) -> list[tuple[str, float]]:
        """The nearest words of a row with their cosine, best first, the word itself left out."""
        k = min(self.rows, count + 24)
        query = self._upload(self.host[row])
        similarity = self.device.allocate(self.rows, "f32")
        values = self.device.allocate(k, "f32")
        indices = self.device.allocate(k, "i32")
        self.steps(
            f"similarity to {words[row]!r}",
            lambda: self._launch(self.gemv, self.table, query, similarity, self.cols),
            self._nothing,
        )
        self.steps(
            f"the {k} nearest of {self.rows}",
            lambda: self._launch(self.topk, similarity, values, indices, self.rows, k),
            self._nothing,
        )
        scores = similarity.numpy()
        args = {"a": self.host, "x": self.host[row], "y": scores, "cols": self.cols}
        self._judge("similarity", self.gemv, args)
        best, places = values.numpy(), indices.numpy()
        top = {"x": scores.reshape(1, -1), "values": best.reshape(1, -1)}
        top |= {"indices": places.reshape(1, -1)}
        self._judge("top-k", self.topk, {**top, "cols": self.rows, "k": k})
        found = zip(places.tolist(), best.tolist(), strict=True)
        return list(readable(((words[p], s) for p, s in found), words[row]))[:count]

    def _upload(self, array: np.ndarray) -> runtime.Buffer:
        return self.device.upload(np.ascontiguousarray(array))

    def _launch(self, kernel: runtime.LoadedKernel, *args: Any) -> None:
        self.device.launch(kernel, *args)
        self.device.synchronize()

    def _judge(self, what: str, kernel: runtime.LoadedKernel, args: dict[str, Any]) -> None:
        """Hold the outputs among `args` against the kernel's reference."""
        dtypes = {p.name: DTYPES[p.dtype] for p in kernel.manifest.params}
        reference = families()[kernel.name].reference(args, dict(kernel.manifest.constexprs))
        for name, expected in reference.items():
            found = compare(args[name], expected, dtypes[name])
            if not found.ok:
                at = f"{what}, {name}[{found.first_wrong}]"
                self.steps.wrong.append(f"{at}: error {found.error:.3g}, bound {found.bound:.3g}")

    @staticmethod
    def _nothing(_: None) -> str:
        return ""


def readable(found: Iterable[tuple[str, float]], word: str) -> Iterable[tuple[str, float]]:
    """Whole words only: no pieces of words, no special tokens, not the word itself."""
    return (
        (name, score)
        for name, score in found
        if name != word and not name.startswith(("##", "[")) and len(name) > 1
    )
