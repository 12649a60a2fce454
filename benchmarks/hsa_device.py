"""What an HSA device costs the host: launching, replaying, slots, copies, loading.

    python benchmarks/hsa_device.py [--bundle artifacts] [--device hsa] [--kernel saxpy]
                                    [--specialization f32] [--double]

Needs numpy, ROCm's HSA runtime, an AMD GPU and a bundle with code objects of saxpy (`scons
target=hsaco kernel=saxpy`); PYTHONPATH=src will do for gristmill. --double: the test double of the
HSA runtime instead, which gcc builds and whose kernels are host functions; what it tells is the
cost of this side of the library, which is all that a submission is: nothing waits for the GPU.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gristmill import runtime

TINY, BLOCK = 256, 100


def row(name: str, value: float, unit: str, bound: str = "") -> None:
    print(f"{name:52} {value:10.3f} {unit:5} {bound and f'(bound {bound})'}", flush=True)


def spent(
    device: runtime.Device, run: Callable[[], object], tries: int = 200
) -> tuple[float, float]:
    """Microseconds of the fastest and of the median call; the device is idle before each."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e6)
        device.synchronize()
    return min(times), statistics.median(times)


def submissions(device: runtime.Device, kernel: runtime.LoadedKernel) -> None:
    """Blocks against the same launches one by one, in turn, so that a busy machine hits both."""
    x, y = (device.upload(np.ones(TINY, np.float32)) for _ in range(2))

    def one_by_one() -> None:
        for _ in range(BLOCK):
            device.launch(kernel, x, y, 0.0)

    blocks = {}
    for count in (1, BLOCK, 5 * BLOCK):
        with device.record() as blocks[count]:
            for _ in range(count):
                blocks[count].launch(kernel, x, y, 0.0)
    for count, recording in blocks.items():
        least, median = spent(device, recording.replay)
        bound = "25" if count == BLOCK else ""
        row(f"replay of a block of {count} packets, best", least, "us", bound)
        row(f"replay of a block of {count} packets, median", median, "us")
    least, median = spent(device, one_by_one)
    row(f"{BLOCK} launches one by one, best", least, "us")
    row(f"{BLOCK} launches one by one, median", median, "us")
    row("one direct launch of these", least / BLOCK, "us")
    again, _ = spent(device, blocks[BLOCK].replay)
    row("a block is cheaper by a factor of", least / again, "")


def small_things(device: runtime.Device) -> None:
    slot, tiny = device.slot("i32"), device.allocate(1, "i32")
    row("slot.set, best", spent(device, lambda: slot.set(3))[0], "us")
    row("synchronize, idle", spent(device, device.synchronize)[0], "us")
    row("download of 4 bytes, best", spent(device, tiny.numpy)[0], "us")
    row(
        "allocate and free of 1 MiB, best",
        spent(device, lambda: device.allocate(1 << 20, "u8").free())[0],
        "us",
    )
    row("memory(), best", spent(device, device.memory)[0], "us")
    data = np.ones(1 << 26, np.uint8)
    big = device.upload(data)

    def up() -> None:
        big.write(data)
        device.synchronize()

    row("upload of 64 MiB", len(data) / spent(device, up, 3)[0] / 1e3, "GB/s")
    row("download of 64 MiB", len(data) / spent(device, big.numpy, 3)[0] / 1e3, "GB/s")


def loads(device: runtime.Device, bundle: runtime.Bundle, kernel: str, special: str) -> None:
    found = bundle.select(kernel, special, device.capabilities)
    if isinstance(found, runtime.Refusal):
        raise SystemExit(str(found))
    blob = found.read()
    least, _ = spent(device, lambda: device._load(found, blob), 10)
    row(f"load of {found.manifest.target}, best of 10", least / 1e3, "ms")


def use_double(folder: str) -> None:
    """The double in place of the library."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from fake_cuda import build_kernels
    from fake_hsa import FakeRuntime, build

    fake = FakeRuntime(build(Path(folder)))
    fake.kernels(build_kernels(Path(folder)))
    os.environ["GRISTMILL_HSA_LIBRARY"] = fake.path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--device", default="hsa")
    parser.add_argument("--kernel", default="saxpy")
    parser.add_argument("--specialization", default="f32")
    parser.add_argument("--double", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.double:
            use_double(folder)
        bundle = runtime.open_bundle(options.bundle)
        with runtime.open_device(options.device) as device:
            print(f"{device.capabilities.name}, {device.capabilities.driver}")
            loads(device, bundle, options.kernel, options.specialization)
            submissions(device, device.load(bundle, options.kernel, options.specialization))
            small_things(device)


if __name__ == "__main__":
    main()
