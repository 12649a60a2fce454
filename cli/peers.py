"""What kernels of a suite are held against: each gives work to time for the same sizes.

`copy` moves as many bytes on the device. `numpy.*` computes on the arguments. `torch.*` computes on
tensors of the same shapes and types on torch's GPU, out of a graph; torch is imported for these
alone. A peer that is not here is `AbsentError`, which the table says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import runtime
from ..store.manifest import Manifest
from .measuring import Runner, long_enough, repeated

Args = Mapping[str, Any]


class AbsentError(Exception):
    """Why there is no such peer here."""


@dataclass(frozen=True)
class Setting:
    """What a peer may need: the device, the first launch's manifest and arguments on the host, all
    sizes, the bytes that the row moves, and how many copies of its operands take turns."""

    device: runtime.Device
    manifest: Manifest
    args: Args
    sizes: Mapping[str, int]
    moved: int
    copies: int = 1


Peer = Callable[[Setting], Runner]
_TORCH = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f8e4m3": "float8_e4m3fn"}


def _copy(setting: Setting) -> Runner:
    """Half of the bytes are read and half written, so that as many are moved."""
    kind, nbytes = setting.device.name.partition(":")[0], max(256, setting.moved // 2 // 256 * 256)
    if kind == "cuda":
        return _cuda_copy(setting.device, nbytes, setting.copies)
    if kind != "cpu":
        raise AbsentError(f"no copy is known for {kind} devices")
    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    return repeated(lambda: np.copyto(target, source))


def _cuda_copy(device: Any, nbytes: int, copies: int) -> Runner:
    kept = [[device.allocate(nbytes, "u8") for _ in range(2)] for _ in range(copies)]

    def prepared(times: int) -> Runner:
        def run() -> None:
            # Here: the buffers live as long as what runs.
            places = [[b.allocation.handle.address for b in (y, x)] for x, y in kept]
            with device._context:
                for number in range(times):
                    pair = places[number % copies]
                    device.api.call("cuMemcpyDtoDAsync", *pair, nbytes, device._queue.stream)
            device._queue.busy = True
            device.synchronize()

        return Runner(run, times)

    return long_enough(prepared)


def _numpy(compute: Callable[[Args], Any]) -> Peer:
    return lambda setting: repeated(lambda: compute(setting.args))


def _softmax(a: Args) -> Any:
    e = np.exp(a["x"] - a["x"].max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _rmsnorm(a: Args) -> Any:
    x = a["x"]
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-5)) * a["weight"]


def _torch(make: Callable[[Any, Setting], Callable[[], Any]]) -> Peer:
    """A peer on torch's GPU: what `make` gives, out of a graph."""

    def peer(setting: Setting) -> Runner:
        try:
            import torch
        except ImportError as error:
            raise AbsentError("torch is not installed") from error
        if not torch.cuda.is_available():
            raise AbsentError("torch has no GPU")
        try:
            work = make(torch, setting)
            with torch.cuda.stream(torch.cuda.Stream()):
                work()  # what a library does once is none of a graph's
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise AbsentError(f"torch: {error}") from error

        def prepared(times: int) -> Runner:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(times):
                    work()

            def run() -> None:
                graph.replay()
                torch.cuda.synchronize()

            return Runner(run, times)

        return long_enough(prepared)

    return peer


def _factors(torch: Any, setting: Setting) -> tuple[Any, list[Any]]:
    """a (m x k) and copies of b (n x k), of the kernel's type."""
    kind = getattr(torch, _TORCH[setting.manifest.params[0].dtype])
    m, n, k = (setting.sizes[name] for name in "mnk")
    a, b = (torch.randn(rows, k, device="cuda").to(kind) for rows in (m, n))
    return a, [b, *(b.clone() for _ in range(1, setting.copies))]


def _matmul(torch: Any, setting: Setting) -> Callable[[], Any]:
    a, copies = _factors(torch, setting)
    columns = setting.manifest.constexprs.get("B_COLUMNS", False)
    factors = [b.t() if columns else b.t().contiguous() for b in copies]
    out = torch.empty(a.shape[0], factors[0].shape[1], device="cuda", dtype=a.dtype)
    turns = itertools.cycle(factors)
    return lambda: torch.matmul(a, next(turns), out=out)


def _linear(torch: Any, setting: Setting) -> Callable[[], Any]:
    """a times the rows of b, as torch's linear layers have weights."""
    a, copies = _factors(torch, setting)
    out = torch.empty(a.shape[0], copies[0].shape[0], device="cuda", dtype=a.dtype)
    turns = itertools.cycle([b.t() for b in copies])
    return lambda: torch.matmul(a, next(turns), out=out)


def _scaled_mm(torch: Any, setting: Setting) -> Callable[[], Any]:
    a, copies = _factors(torch, setting)
    turns = itertools.cycle([b.t() for b in copies])
    one = torch.ones((), device="cuda")
    options = {"scale_a": one, "scale_b": one, "use_fast_accum": True, "out_dtype": torch.bfloat16}
    return lambda: torch._scaled_mm(a, next(turns), **options)


def _attention(torch: Any, setting: Setting) -> Callable[[], Any]:
    """Causal attention of whole sequences."""
    s = setting.sizes
    kind = getattr(torch, _TORCH[setting.manifest.params[0].dtype])
    shape = s["batch"], s["heads"], s["length"], s["dim"]
    q, k, v = (torch.randn(shape, device="cuda", dtype=kind) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(q, k, v, is_causal=True)


def _logits(torch: Any, setting: Setting) -> Any:
    kind = getattr(torch, _TORCH[setting.manifest.params[0].dtype])
    shape = setting.sizes["rows"], setting.sizes["cols"]
    return torch.randn(shape, device="cuda").to(kind)


def _topk(torch: Any, setting: Setting) -> Callable[[], Any]:
    x, k = _logits(torch, setting), setting.sizes["k"]
    return lambda: torch.topk(x, k)


def _sample(torch: Any, setting: Setting) -> Callable[[], Any]:
    """Penalties, top-k 50, top-p 0.9 at a temperature of 0.7, the draw: over sorted rows."""
    logits = _logits(torch, setting)
    counts = torch.zeros(logits.shape, device="cuda", dtype=torch.int32)

    def work() -> Any:
        penalized = torch.where(logits > 0, logits / 1.1, logits * 1.1) - 1.1 * counts - 1.1
        x = torch.where(counts > 0, penalized, logits) / 0.7
        least = torch.topk(x, 50).values[:, -1:]
        ordered, columns = x.masked_fill(x < least, -float("inf")).sort(descending=True)
        mass = ordered.softmax(-1)
        kept = mass.masked_fill(mass.cumsum(-1) - mass > 0.9, 0.0)
        return columns.gather(1, torch.multinomial(kept, 1))

    return work


PEERS: dict[str, Peer] = {
    "copy": _copy,
    "numpy.saxpy": _numpy(lambda a: np.float32(a["a"]) * a["x"] + a["y"]),
    "numpy.add": _numpy(lambda a: a["a"] + a["b"]),
    "numpy.exp": _numpy(lambda a: np.exp(a["x"])),
    "numpy.sum": _numpy(lambda a: a["x"].sum(-1)),
    "numpy.softmax": _numpy(_softmax),
    "numpy.rmsnorm": _numpy(_rmsnorm),
    "numpy.matmul": _numpy(lambda a: a["a"] @ a["b"]),
    "numpy.gemv": _numpy(lambda a: a["a"] @ a["x"]),
    "torch.matmul": _torch(_matmul),
    "torch.linear": _torch(_linear),
    "torch.scaled_mm": _torch(_scaled_mm),
    "torch.attention": _torch(_attention),
    "torch.topk": _torch(_topk),
    "torch.sample": _torch(_sample),
}
