"""Kernels that are bound by memory, beside the driver's device-to-device copy, on a CUDA device.

    python benchmarks/cuda_kernels.py [--bundle artifacts] [--device cuda] [--only softmax,...]

Prints one row per kernel: bytes that it must move, over the time of one launch out of a recording
of many; and that rate over the rate of a copy that moves as many bytes, measured in the same run.
Times are the device's, between two events. Needs numpy, cuda-bindings, a
driver and a bundle (`scons target=ptx` or `target=cubin`); PYTHONPATH=src will do for gristmill.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gristmill import runtime
from gristmill.ir.quantized import BLOCKS

WARM = 0.3  # seconds until the clocks stand
REPEAT = 20  # launches of one replay
N = 1 << 28  # elements of copy-like kernels
ROWS = COLS = 8192
SIZES = {"f64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "u16": 2, "bf16": 2, "i8": 1}


@dataclass(frozen=True)
class Case:
    """A launch: kernel, specialization, buffers (dtype, elements), scalars, bytes moved, bound."""

    kernel: str
    specialization: str
    buffers: tuple[tuple[str, int], ...]
    scalars: tuple[float, ...]
    moved: int
    bound: float


def streams(
    kernel: str, specialization: str, types: str, bound: float, *scalars: float, again: int = 0
) -> Case:
    """N elements of each type, read or written once; `again`: bytes an element on top."""
    names = types.split()
    moved = N * (sum(SIZES[t] for t in names) + again)
    return Case(kernel, specialization, tuple((t, N) for t in names), scalars, moved, bound)


def square(kernel: str, t: str, extra: int, *scalars: float) -> Case:
    """A matrix in, a matrix out, `extra` vectors of a row's length between them."""
    whole, row = (t, ROWS * COLS), (t, COLS)
    moved = (2 * ROWS * COLS + extra * COLS) * SIZES[t]
    return Case(kernel, t, (whole, *[row] * extra, whole), (COLS, *scalars), moved, 0.90)


def product(specialization: str, rows: int, cols: int, kernel: str = "quantized_gemv") -> Case:
    """A quantized matrix times a vector, in f16 where the name says so or the kernel has no
    other."""
    name = specialization.removesuffix("_f16")
    half = name != specialization or kernel == "nv_quantized_gemv"
    form = BLOCKS.get(name.removesuffix("_planes"))
    count = rows * cols
    if form is None:  # u4, in groups of 128
        parts = [("u32", count // 8), ("u32", count // 128)]
    elif name.endswith("_planes"):
        strides = {p.part: p.stride for p in form.places("planes").values()}
        parts = [("u32", -(-(count // form.block * strides[n]) // 4)) for n in (0, 1)]
    else:
        parts = [(form.word.name, count // form.block * form.bytes // form.word.bytes)]
    buffers = (*parts, ("f16" if half else "f32", cols), ("f32", rows))
    moved = sum(SIZES[t] * n for t, n in buffers)
    return Case(kernel, specialization, buffers, (cols,), moved, 0.85)


def cases() -> list[Case]:
    found = [
        streams("saxpy", "f32", "f32 f32", 0.95, 2.0, again=4),
        streams("saxpy", "f16", "f16 f16", 0.95, 2.0, again=2),
        streams("binary", "add_f32", "f32 f32 f32", 0.95),
        streams("binary", "add_f16", "f16 f16 f16", 0.95),
        streams("binary", "add_bf16", "bf16 bf16 bf16", 0.95),
        streams("unary", "relu_f32", "f32 f32", 0.95),
        streams("unary", "exp_f32", "f32 f32", 0.95),
        streams("unary", "gelu_f32", "f32 f32", 0.95),
        *(streams("unary", f"{op}_f16", "f16 f16", 0.95) for op in ("exp", "silu", "tanh", "gelu")),
        streams("cast", "f32_f16", "f32 f16", 0.95),
        streams("cast", "f16_f32", "f16 f32", 0.95),
        streams("cast", "f32_bf16", "f32 bf16", 0.95),
        streams("cast", "f32_i32", "f32 i32", 0.95),
        streams("cast", "f32_i8", "f32 i8", 0.95),
        streams("cast", "f64_f32", "f64 f32", 0.95),
    ]
    side = 16384
    for t in ("f32", "f16", "i8"):
        whole = (t, side * side)
        moved = 2 * side * side * SIZES[t]
        found.append(Case("transpose", t, (whole, whole), (side, side), moved, 0.95))
    for t in ("f32", "f16"):
        found += [square("softmax", t, 0), square("rmsnorm", t, 1, 1e-5)]
        found.append(square("layernorm", t, 2, 1e-5))
        matrix, out = (t, ROWS * COLS), ("f32", ROWS)
        moved = ROWS * COLS * SIZES[t] + ROWS * 4
        found.append(Case("reduce_rows", f"sum_{t}", (matrix, out), (COLS,), moved, 0.90))
    giga, parts = ("f32", 1 << 30), ("f32", 132 * 16)
    found += [
        Case("reduce_partials", f"{op}_f32", (giga, parts), (), 4 << 30, 0.95)
        for op in ("sum", "max")
    ]
    # Large enough that no cache holds the weights from one launch to the next.
    for rows, cols in ((1 << 17, 4096), (1 << 15, 14336)):
        for name in ("q4_0_planes", "q4_k", "u4", "q8_0_planes", "q6_k_planes"):
            found.append(product(name, rows, cols))
        found += [product(f"{n}_f16", rows, cols) for n in ("q4_0_planes", "q4_k", "u4")]
        for name in ("q4_0_planes", "q4_0", "q4_k", "q5_k", "u4", "q8_0_planes"):
            found.append(product(name, rows, cols, "nv_quantized_gemv"))
    return found


def seconds(device: Any, run: Callable[[], Any], launches: int) -> float:
    """The best time of one launch by the device's clock; `run` queues `launches` of them."""
    from cuda.bindings import driver

    def timed() -> float:
        with device._context:
            device._queue.mark(begin)
            run()
            device._queue.mark(end)
        device._queue.busy = True
        device.synchronize()
        return device.api.call("cuEventElapsedTime", begin, end) * 1e-3 / launches

    with device._context:
        begin, end = (device._queue.event(timing=True) for _ in range(2))
    deadline = time.perf_counter() + WARM
    while time.perf_counter() < deadline:
        timed()
    best = min(timed() for _ in range(10))
    with device._context:
        for event in (begin, end):
            (status,) = driver.cuEventDestroy(event)
            assert not status, status
    return best


def copy_rate(device: Any, moved: int) -> float:
    """Bytes a second that the driver's copy reads and writes, `moved` of them in one copy."""
    from cuda.bindings import driver

    nbytes = moved // 2 // 256 * 256
    a, b = (device.allocate(nbytes, "u8") for _ in range(2))
    source, target = (x.allocation.handle.address for x in (a, b))

    def run() -> None:
        for _ in range(REPEAT):
            (status,) = driver.cuMemcpyDtoDAsync(target, source, nbytes, device._queue.stream)
            assert not status, status

    rate = 2 * nbytes / seconds(device, run, REPEAT)
    a.free()
    b.free()
    return rate


def measure(device: runtime.Device, bundle: runtime.Bundle, case: Case) -> float:
    """Bytes a second."""
    kernel = device.load(bundle, case.kernel, case.specialization)
    buffers = [device.allocate(n, t) for t, n in case.buffers]
    rng = np.random.default_rng(1)
    for buffer in buffers:
        size = min(buffer.count, 1 << 26)
        filling = np.zeros(size, buffer.dtype.storage)
        if buffer.dtype.is_int:  # of weights: zeros take less power, and higher clocks
            filling.view(np.uint8)[:] = rng.integers(0, 256, filling.nbytes, np.uint8)
        for start in range(0, buffer.count, size):
            part = filling[: buffer.count - start]
            buffer.view(start, len(part)).write(part)
    with device.record() as recording:
        for _ in range(REPEAT):
            recording.launch(kernel, *buffers, *case.scalars)
    rate = case.moved / seconds(device, recording.replay, REPEAT)
    recording.close()
    for buffer in buffers:
        buffer.free()
    return rate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default="", help="kernels, separated by commas")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    short = 0
    with runtime.open_device(options.device) as device:
        print(f"{device.capabilities.name}, {device.capabilities.driver}")
        bundle = runtime.open_bundle(options.bundle)
        copies: dict[int, float] = {}
        for case in cases():
            if only and case.kernel not in only:
                continue
            rate = measure(device, bundle, case)
            if case.moved not in copies:
                copies[case.moved] = copy_rate(device, case.moved)
            copy = copies[case.moved]
            short += rate < case.bound * copy
            name = f"{case.kernel} {case.specialization}"
            print(
                f"{name:28} {case.moved / 1e6:7.0f} MB {rate / 1e9:6.0f} GB/s"
                f"  copy {copy / 1e9:6.0f}  ratio {rate / copy:5.3f} (bound {case.bound:.2f})",
                flush=True,
            )
    print(f"{short} below their bound")
    return 0


if __name__ == "__main__":
    sys.exit(main())
