"""What a CUDA device costs the host: loading, launching, replaying, starting, copying.

    python benchmarks/cuda_device.py [--bundle artifacts] [--device cuda] [--kernel saxpy]
                                     [--specialization f32]

Needs numpy, cuda-bindings, a driver and a bundle with PTX or cubin of saxpy (`scons target=ptx
kernel=saxpy`); PYTHONPATH=src will do for gristmill. The driver's own cache of compiled PTX is off.
Bounds are those of one H200. The first result is the wall time from the start of a fresh process
until it has the result, Python's start and the import of numpy included, less what the driver alone
takes to be loaded, to start and to make its context. Modules are compiled, as they are once
installed: the first try may write that.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

os.environ.setdefault("CUDA_CACHE_DISABLE", "1")

import numpy as np

from gristmill import runtime
from gristmill.ir.abi import gpu_layout

TINY, LAUNCHES = 256, 200
# Each prints its moments: the clock is the machine's, not the process's.
INITIALISE = """
import ctypes, time
start, context = time.perf_counter(), ctypes.c_void_p()
driver = ctypes.CDLL("libcuda.so.1")
assert not driver.cuInit(0)
assert not driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print(start, time.perf_counter())
"""
IMPORTS = """
import time
begun = time.perf_counter()
import numpy
from cuda.bindings import driver
print(begun, time.perf_counter())
"""
FIRST = """
import time
moments = [time.perf_counter()]
import numpy as np
moments.append(time.perf_counter())
from gristmill import runtime
moments.append(time.perf_counter())
bundle = runtime.open_bundle({bundle!r})
moments.append(time.perf_counter())
with runtime.open_device({device!r}) as device:
    moments.append(time.perf_counter())
    x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
    kernel = device.load(bundle, {kernel!r}, {specialization!r})
    moments.append(time.perf_counter())
    kernel(x, y, 2.0)
    assert (y == 3).all()
    print(*moments, time.perf_counter())
"""
# The device is opened before anybody imports numpy: that, too, is done while the driver starts.
OPENED_FIRST = """
import time
begun = time.perf_counter()
from gristmill import runtime
with runtime.open_device({device!r}) as device:
    import numpy as np
    x, y = np.ones(1000, np.float32), np.ones(1000, np.float32)
    device.load(runtime.open_bundle({bundle!r}), {kernel!r}, {specialization!r})(x, y, 2.0)
    assert (y == 3).all()
    print(begun, time.perf_counter())
"""
STEPS = ("numpy", "gristmill.runtime", "the bundle", "the device", "the kernel", "the call")


def row(name: str, value: float, unit: str, bound: str = "") -> None:
    print(f"{name:46} {value:10.3f} {unit:5} {bound and f'(bound {bound})'}", flush=True)


def best(run: Callable[[], object], tries: int = 30) -> float:
    """Microseconds of the fastest call."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def loads(device: runtime.Device, bundle: runtime.Bundle, kernel: str, special: str) -> None:
    every = device.capabilities
    for kind, bound in (("cubin", "0.2"), ("ptx", "")):
        targets = tuple(t for t in every.targets if t.startswith(kind))
        device.capabilities = replace(every, targets=targets)
        found = bundle.select(kernel, special, device.capabilities)
        if isinstance(found, runtime.Refusal):
            print(f"load of a {kind}: {found}")
            continue
        blob, times = found.read(), []
        for _ in range(5):
            start = time.perf_counter()
            device._load(found, blob)
            times.append((time.perf_counter() - start) * 1e3)
        row(f"load of {found.manifest.target}, first", times[0], "ms")
        row(f"load of {found.manifest.target}, best of 5", min(times), "ms", bound)
    device.capabilities = every


def every_artifact(device: runtime.Device, bundle: runtime.Bundle) -> None:
    """Load all that this device takes, and compare the driver's view of the parameters."""
    from cuda.bindings import driver

    wrong, count, start = [], 0, time.perf_counter()
    for name, specials in bundle.kernels().items():
        for special in specials:
            if isinstance(bundle.select(name, special, device.capabilities), runtime.Refusal):
                continue
            kernel = device.load(bundle, name, special)
            count += 1
            if "tensor_maps" in kernel.manifest.facts:  # the assembler places these
                continue
            layout = gpu_layout(kernel.params, bool(kernel.manifest.sites))
            fault = [] if layout.faults is None else [layout.faults, layout.fault_base]
            grid = [layout.grid + 4 * n for n in range(3)]
            places = [*layout.pointers, *layout.scalars, *layout.counts, *fault, *grid]
            for n, place in enumerate([*places, None]):
                status, offset, _ = driver.cuFuncGetParamInfo(kernel.code.function, n)
                if (offset if not int(status) else None) != place:
                    wrong.append(f"{kernel}: parameter {n} at {offset}, not {place}")
    row(f"load of {count} kernels, each", (time.perf_counter() - start) / max(1, count) * 1e3, "ms")
    print("parameters as declared" if not wrong else "\n".join(wrong))


def bare_launch(device: Any, kernel: Any) -> None:
    """What the driver's own launch costs through cuda.bindings, with arguments packed before."""
    from cuda.bindings import driver

    x, y = (device.upload(np.ones(TINY, np.float32)) for _ in range(2))
    layout = gpu_layout(kernel.params, bool(kernel.manifest.sites))
    block = np.zeros(layout.size, np.uint8)
    for place, buffer in zip(layout.pointers, (x, y), strict=True):
        block[place : place + 8].view(np.uint64)[0] = buffer.allocation.handle.address
    block[layout.grid : layout.grid + 12].view(np.uint32)[:] = 1  # counts of 0: nothing is stored
    places = [*layout.pointers, *layout.scalars, *layout.counts]
    places += [] if layout.faults is None else [layout.faults, layout.fault_base]
    places += [layout.grid + 4 * n for n in range(3)]
    pointers = np.array([block.ctypes.data + place for place in places], np.uint64)
    size, packed = kernel.manifest.workgroup, pointers.ctypes.data
    call = (kernel.code.function, 1, 1, 1, *size, 0, device._queue.stream, packed, 0)

    def run() -> None:
        for _ in range(LAUNCHES):
            driver.cuLaunchKernel(*call)

    with device._context:
        times = []
        for _ in range(40):
            times.append(best(run, 1) / LAUNCHES)
            driver.cuStreamSynchronize(device._queue.stream)
    row("cuLaunchKernel of cuda.bindings alone", min(times), "us")


def launches(device: runtime.Device, kernel: runtime.LoadedKernel) -> None:
    x, y, z = (device.upload(np.ones(TINY, np.float32)) for _ in range(3))
    hosts, alls, others = [], [], []
    for _ in range(40):
        start = time.perf_counter()
        for _ in range(LAUNCHES):
            device.launch(kernel, x, y, 0.0)
        middle = time.perf_counter()
        device.synchronize()
        hosts.append((middle - start) / LAUNCHES * 1e6)
        alls.append((time.perf_counter() - start) / LAUNCHES * 1e6)
        start = time.perf_counter()
        for _ in range(LAUNCHES // 2):
            device.launch(kernel, x, y, 0.0)
            device.launch(kernel, y, z, 0.5)
        others.append((time.perf_counter() - start) / LAUNCHES * 1e6)
        device.synchronize()
    row("direct launch, host, best of 40 x 200", min(hosts), "us", "7")
    row("direct launch, host, median", statistics.median(hosts), "us")
    row("the same, with other arguments each time", min(others), "us", "7")
    row("direct launch, with the wait", min(alls), "us")


def replays(device: runtime.Device, kernel: runtime.LoadedKernel) -> None:
    pairs = [[device.upload(np.ones(TINY, np.float32)) for _ in range(2)] for _ in range(LAUNCHES)]
    for name, used in (("one after the other", pairs[:1] * LAUNCHES), ("independent", pairs)):
        with device.record() as recording:
            for x, y in used:
                recording.launch(kernel, x, y, 0.0)
        recording.replay()
        device.synchronize()
        hosts, alls = [], []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(20):
                recording.replay()
            hosts.append((time.perf_counter() - start) / 20 * 1e6)
            device.synchronize()
            alls.append((time.perf_counter() - start) / 20 / LAUNCHES * 1e6)
        row(f"replay of 200, {name}, host", min(hosts), "us", "20")
        row(f"replay of 200, {name}, per kernel", min(alls), "us", "0.9")
        one = best(lambda r=recording: (r.replay(), device.synchronize()))  # type: ignore[misc]
        row(f"one replay of 200, {name}, and wait", one, "us")
        with device.record(timed=True) as timed:
            for x, y in used:
                timed.launch(kernel, x, y, 0.0)
        timed.replay()
        median = float(np.median(timed.timestamps()))
        row(f"one of 200, {name}, by its timestamps", median * 1e6, "us")
        assert np.array_equal(used[0][1].numpy(), np.ones(TINY, np.float32))


def small_things(device: runtime.Device) -> None:
    slot = device.slot("i32")
    row("slot.set", best(lambda: [slot.set(3) for _ in range(100)]) / 100, "us")
    device.synchronize()
    row("synchronize, idle", best(device.synchronize), "us")
    row("allocate and free of 1 MiB", best(lambda: device.allocate(1 << 20, "u8").free()), "us")
    row("memory()", best(device.memory), "us")
    tiny = device.allocate(1, "i32")
    row("download of 4 bytes", best(tiny.numpy), "us")
    data = np.ones(1 << 28, np.uint8)
    big = device.upload(data)

    def up() -> None:
        big.write(data)
        device.synchronize()

    row("upload of 256 MiB", len(data) / best(up, 3) / 1e3, "GB/s")
    row("download of 256 MiB", len(data) / best(big.numpy, 3) / 1e3, "GB/s")


def first_results(options: argparse.Namespace) -> None:
    codes = {"driver": INITIALISE, "imports": IMPORTS}
    codes |= {
        name: code.format(**vars(options))
        for name, code in (("first", FIRST), ("opened first", OPENED_FIRST))
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    spans: dict[str, list[tuple[float, float, float]]] = {name: [] for name in codes}
    steps: list[list[float]] = []
    for _ in range(10):
        for name, code in codes.items():
            start = time.perf_counter()
            command = [sys.executable, "-c", code]
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            begun, *later = map(float, done.stdout.split())
            spans[name].append((begun - start, later[-1] - begun, later[-1] - start))
            if name == "first":
                steps.append([b - a for a, b in itertools.pairwise([begun, *later])])
    driver = min(own for _, own, _ in spans["driver"]) * 1e3
    first = min(whole for _, _, whole in spans["first"]) * 1e3
    row("process to its first line", min(s for s, _, _ in spans["first"]) * 1e3, "ms")
    row("the driver's start and context", driver, "ms")
    imports = min(whole for _, _, whole in spans["imports"]) * 1e3
    row("process that imports numpy and cuda.bindings", imports, "ms")
    row("process to its first result", first, "ms")
    for name, times in zip(STEPS, zip(*steps, strict=True), strict=True):
        row(f"  of it {name}", statistics.median(times) * 1e3, "ms")
    row("first result beyond the driver's start", first - driver, "ms", "150")
    opened = min(whole for _, _, whole in spans["opened first"]) * 1e3
    row("the same, numpy imported behind the device", opened - driver, "ms", "150")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--kernel", default="saxpy")
    parser.add_argument("--specialization", default="f32")
    options = parser.parse_args()
    start = time.perf_counter()
    from cuda.bindings import driver

    imported = time.perf_counter()
    driver.cuInit(0)
    begun = time.perf_counter()
    with runtime.open_device(options.device) as device:
        opened = time.perf_counter()
        row("import of cuda.bindings.driver", (imported - start) * 1e3, "ms")
        row("cuInit", (begun - imported) * 1e3, "ms")
        row("open, with the primary context", (opened - begun) * 1e3, "ms")
        caps = device.capabilities
        print(f"{caps.name}, {caps.driver}, loads {', '.join(caps.targets)}")
        print(f"features {', '.join(sorted(caps.features))}\nlimits {caps.limits}\n{caps.facts}")
        bundle = runtime.open_bundle(options.bundle)
        loads(device, bundle, options.kernel, options.specialization)
        kernel = device.load(bundle, options.kernel, options.specialization)
        x, y = np.arange(100_003, dtype=np.float32), np.ones(100_003, np.float32)
        kernel(x, y, 2.0)
        assert np.array_equal(y, 2 * x + 1), "saxpy is wrong"
        every_artifact(device, bundle)
        bare_launch(device, kernel)
        launches(device, kernel)
        replays(device, kernel)
        small_things(device)
        print(device.memory())
    first_results(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
