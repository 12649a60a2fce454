"""`gristmill bench`: kernels beside numpy on the same data, in one run, as ratios.

Buffers stay on the device; a time is the median over launches, each with its wait. numpy and the
kernel take turns, so that what else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .. import runtime
from .errors import CommandError
from .table import milliseconds, table

Args = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """What is measured: a specialization, its arguments by parameter, the same in numpy."""

    kernel: str
    specialization: str
    size: str
    args: Callable[[np.random.Generator], Args]
    numpy: Callable[[Args], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds for one launch and for numpy; ratio below 1: the kernel is faster."""

    kernel: str
    specialization: str
    size: str
    target: str
    seconds: float
    numpy_seconds: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.numpy_seconds


def _vector(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _rmsnorm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.square(x).mean(1, keepdims=True) + np.float32(1e-5)) * weight


N, ROWS, COLS, SIDE = 1 << 22, 1024, 4096, 512

ROWS_MEASURED = (
    Row(
        "saxpy",
        "f32",
        f"{N}",
        lambda g: {"x": _vector(g, N), "y": _vector(g, N), "a": 2.0},
        lambda a: np.float32(a["a"]) * a["x"] + a["y"],
    ),
    Row(
        "unary",
        "exp_f32",
        f"{N}",
        lambda g: {"x": _vector(g, N), "y": np.zeros(N, np.float32)},
        lambda a: np.exp(a["x"]),
    ),
    Row(
        "reduce_rows",
        "sum_f32",
        f"{ROWS} x {COLS}",
        lambda g: {"x": _vector(g, ROWS, COLS), "y": np.zeros(ROWS, np.float32), "cols": COLS},
        lambda a: a["x"].sum(1),
    ),
    Row(
        "softmax",
        "f32",
        f"{ROWS} x {COLS}",
        lambda g: {
            "x": _vector(g, ROWS, COLS),
            "y": np.zeros((ROWS, COLS), np.float32),
            "cols": COLS,
        },
        lambda a: _softmax(a["x"]),
    ),
    Row(
        "rmsnorm",
        "f32",
        f"{ROWS} x {COLS}",
        lambda g: {
            "x": _vector(g, ROWS, COLS),
            "weight": _vector(g, COLS),
            "y": np.zeros((ROWS, COLS), np.float32),
            "cols": COLS,
            "eps": 1e-5,
        },
        lambda a: _rmsnorm(a["x"], a["weight"]),
    ),
    Row(
        "gemv",
        "f32",
        f"{COLS} x {COLS}",
        lambda g: {
            "a": _vector(g, COLS, COLS),
            "x": _vector(g, COLS),
            "y": np.zeros(COLS, np.float32),
            "cols": COLS,
        },
        lambda a: a["a"] @ a["x"],
    ),
    Row(
        "matmul",
        "f32",
        f"{SIDE}^3",
        lambda g: {
            "a": _vector(g, SIDE, SIDE),
            "b": _vector(g, SIDE, SIDE),
            "c": np.zeros((SIDE, SIDE), np.float32),
            "m": SIDE,
            "n": SIDE,
            "k": SIDE,
        },
        lambda a: a["a"] @ a["b"],
    ),
)


def bench(arguments: argparse.Namespace) -> int:
    """The command."""
    bundle = runtime.open_bundle(arguments.bundle)
    rows = _select(arguments.kernel, bundle)
    timings: list[Timing] = []
    refused: list[str] = []
    with runtime.open_device(arguments.device or "cpu") as device:
        head = f"{device.capabilities.device}: {device.capabilities.name}"
        for row in rows:
            try:
                timings.append(measure(device, bundle, row, arguments.seconds))
            except runtime.Refused as error:
                refused.append(str(error.refusal))
    if not timings:
        raise CommandError("; ".join(refused) or "nothing to measure")
    if arguments.json:
        plain = [{**asdict(t), "ratio": t.ratio} for t in timings]
        print(json.dumps({"device": head, "results": plain, "refused": refused}, indent=2))
        return 0
    print(head)
    lines = [["kernel", "specialization", "size", "target", "kernel", "numpy", "kernel/numpy"]]
    for t in timings:
        times = [milliseconds(t.seconds), milliseconds(t.numpy_seconds), f"{t.ratio:.2f}"]
        lines.append([t.kernel, t.specialization, t.size, t.target, *times])
    print(table(lines, right=(4, 5, 6)))
    for reason in refused:
        print(f"refused: {reason}")
    return 0


def _select(names: list[str], bundle: runtime.Bundle) -> list[Row]:
    built = {(kernel, spec) for kernel, specs in bundle.kernels().items() for spec in specs}
    rows = [
        row
        for row in ROWS_MEASURED
        if not names or row.kernel in names or f"{row.kernel}/{row.specialization}" in names
    ]
    found = [row for row in rows if (row.kernel, row.specialization) in built]
    if not found:
        known = ", ".join(f"{row.kernel}/{row.specialization}" for row in ROWS_MEASURED)
        raise CommandError(f"nothing to measure in this bundle (measured are {known})")
    return found


def launcher(
    device: runtime.Device, kernel: runtime.LoadedKernel, args: Mapping[str, Any]
) -> Callable[[], None]:
    """One launch with copies of the arguments on the device, and the wait for it."""
    given = [device.upload(v) if isinstance(v, np.ndarray) else v for v in args.values()]

    def launch() -> None:
        device.launch(kernel, *given)
        device.synchronize()

    return launch


def measure(device: runtime.Device, bundle: runtime.Bundle, row: Row, seconds: float) -> Timing:
    """Time one row for about `seconds`, half of them each for kernel and numpy."""
    args = row.args(np.random.default_rng(0))
    kernel = device.load(bundle, row.kernel, row.specialization)
    launch = launcher(device, kernel, args)
    ours: list[float] = []
    theirs: list[float] = []
    launch()
    row.numpy(args)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ours) < 3:
        ours.append(_time(launch))
        theirs.append(_time(lambda: row.numpy(args)))
    return Timing(
        row.kernel,
        row.specialization,
        row.size,
        kernel.manifest.target,
        float(np.median(ours)),
        float(np.median(theirs)),
    )


def _time(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
