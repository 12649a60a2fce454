"""wgpu beside Vulkan on the same adapter: `python benchmarks/wgpu_device.py [NAME] [--seconds S]`.

The kernels of `gristmill bench`, each from its WGSL and from its SPIR-V, on buffers of the same
contents, in turns; a time is one launch with its wait. On software, processor time is measured
beside the wall's, as other processes do not add to it. Then what a launch costs: one alone, and one
of a recording of 100. Needs a bundle with both (`scons target=wgsl,spirv`); NAME is a part of the
adapter's name (default llvmpipe). The last line has the largest ratios of medians.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gristmill import runtime
from gristmill.cli.bench import ROWS_MEASURED, Row, launcher

DEVICES = ("vulkan", "wgpu")
LAUNCHES = 100
Work = Callable[[], None]


def work_of(device: runtime.Device, bundle: runtime.Bundle, row: Row) -> Work:
    """One launch of a row and the wait for it."""
    kernel = device.load(bundle, row.kernel, row.specialization)
    return launcher(device, kernel, row.args(np.random.default_rng(0)))


def small(device: runtime.Device, bundle: runtime.Bundle, recorded: bool) -> Work:
    """A launch of 64 elements, or the replay of LAUNCHES of them, with the wait."""
    kernel = device.load(bundle, "saxpy", "f32")
    x, y = (device.upload(np.zeros(64, np.float32)) for _ in range(2))
    if not recorded:

        def launch() -> None:
            device.launch(kernel, x, y, 2.0)
            device.synchronize()

        return launch
    with device.record() as recording:
        for _ in range(LAUNCHES):
            recording.launch(kernel, x, y, 2.0)

    def replay() -> None:
        recording.replay()
        device.synchronize()

    return replay


def race(works: dict[str, Work], seconds: float) -> dict[str, np.ndarray]:
    """Seconds of each call, on the wall and of processors: float64[calls, 2]. The works take turns,
    one call each, in an order that alternates."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for work in works.values():
        work()
    end = time.perf_counter() + seconds
    turn = list(works)
    while time.perf_counter() < end or len(times[turn[0]]) < 5:
        for name in turn:
            spent, begin = time.process_time(), time.perf_counter()
            works[name]()
            now = time.perf_counter()
            times[name].append((now - begin, time.process_time() - spent))
        turn.reverse()
    return {name: np.array(found) for name, found in times.items()}


def report(title: str, times: dict[str, np.ndarray], unit: float = 1e3) -> np.ndarray:
    """Print a row: medians and minima on the wall, ratios of the medians; gives those."""
    vulkan, wgpu = (np.median(times[name], 0) * unit for name in DEVICES)
    least = [times[name][:, 0].min() * unit for name in DEVICES]
    ratios = wgpu / np.maximum(vulkan, 1e-9)
    cells = [f"{m[0]:.2f} ({v:.2f})" for m, v in zip((vulkan, wgpu), least, strict=True)]
    cells += [f"{ratios[0]:.2f}", f"{least[1] / least[0]:.2f}", f"{ratios[1]:.2f}"]
    print(f"| {title} | {' | '.join(cells)} |", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", nargs="?", default="llvmpipe")
    parser.add_argument("--bundle", default="artifacts")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each row")
    parser.add_argument("--kernel", action="append", default=[])
    options = parser.parse_args()
    bundle = runtime.open_bundle(options.bundle)
    devices: dict[str, Any] = {}
    for name in DEVICES:
        devices[name] = runtime.open_device(f"{name}:{options.name}")
    has = devices["wgpu"].capabilities
    print(f"{has.name}; {has.driver}; median (least) in ms, per launch in us\n")
    print("| work | Vulkan | wgpu | ratio of medians | of least | of processor time |")
    print("|---|---|---|---|---|---|")
    ratios = []
    for row in ROWS_MEASURED:
        if options.kernel and row.kernel not in options.kernel:
            continue
        try:
            works = {name: work_of(d, bundle, row) for name, d in devices.items()}
        except runtime.Refused as refused:
            print(f"| {row.kernel} | refused: {refused} | | | | |")
            continue
        title = f"{row.kernel} {row.specialization}, {row.size}"
        ratios.append(report(title, race(works, options.seconds)))
    for title, recorded, unit in (
        ("a launch of 64 elements", False, 1e6),
        (f"a launch of a recording of {LAUNCHES}", True, 1e6 / LAUNCHES),
    ):
        works = {name: small(d, bundle, recorded) for name, d in devices.items()}
        report(title, race(works, options.seconds), unit)
    if ratios:
        wall, spent = np.max(ratios, 0)
        print(f"\nlargest ratio of the kernels: {wall:.2f}, of processor time {spent:.2f}")
    for device in devices.values():
        device.close()


if __name__ == "__main__":
    main()
