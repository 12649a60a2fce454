"""What a farm costs per action: many actions with a compiler that does nothing.

    python benchmarks/farm.py [ACTIONS ...] [--workers N] [--threads N]

Starts a scheduler and its workers as processes of this machine. Each action has another key and
goes the way that a build's goes: packed, sent, checked, its first result of each worker compiled
here. Prints, for each number of actions: seconds of the clock, and of processors in the client, the
scheduler and the workers, per action; and how much memory each came to hold.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from farm_cluster import STEP, Loopback, work
from gristmill.backends.farm.farm import Farm
from gristmill.backends.steps import compile_step
from gristmill.store.key import Action
from gristmill.store.manifest import Manifest

STUB = """
from gristmill.backends.farm import worker
from gristmill.store.key import parsed
outputs = {outputs!r}
def done(job):
    action = parsed(job.text)
    key = action.key.encode()
    return "done", ("here", {{n: d.replace(b"0" * 64, key) for n, d in outputs.items()}})
worker.done = done
"""
TICKS = os.sysconf("SC_CLK_TCK")


def spent(pid: int) -> tuple[float, float, float]:
    """Processor seconds of a process, its memory now and at most in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    sizes = dict(line.split(":", 1) for line in status.splitlines() if "kB" in line)
    now, peak = (int(sizes[name].split()[0]) / 1e3 for name in ("VmRSS", "VmHWM"))
    return (int(fields[11]) + int(fields[12])) / TICKS, now, peak


class Stub(Farm):
    """A farm whose own compiler does nothing either."""

    def _audit(self, *_: object) -> None:
        self._count("audited")


def measure(cluster: Loopback, farm: Farm, count: int, start: int, threads: int) -> None:
    """Run `count` actions, the first one of number `start`, and print what they took."""
    action, args = work(1)
    pids = [os.getpid(), *(process.pid for process in cluster.processes)]
    before, begin = [spent(pid)[0] for pid in pids], time.perf_counter()

    def one(number: int) -> None:
        digest = hashlib.sha256(str(number).encode()).hexdigest().encode()
        other = Action({**action.fields, "ir": digest})
        farm.run(STEP, *args[:3], other.key, action=other)

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(one, range(start, start + count), chunksize=1):
            pass
    wall = time.perf_counter() - begin
    after = [spent(pid) for pid in pids]
    cpu = [1e3 * (a[0] - b) / count for a, b in zip(after, before, strict=True)]
    workers = sum(cpu[2:])
    print(
        f"{count:>8} actions: {wall:.0f} s, {1e3 * wall / count:.2f} ms each; processor ms each: "
        f"client {cpu[0]:.2f}, scheduler {cpu[1]:.2f}, workers {workers:.2f}; MB now and at most: "
        f"client {after[0][1]:.0f} {after[0][2]:.0f}, scheduler {after[1][1]:.0f} "
        f"{after[1][2]:.0f}, a worker {after[2][1]:.0f} {after[2][2]:.0f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("actions", nargs="*", type=int, default=[1000, 10_000, 100_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=64)
    options = parser.parse_args()
    outputs = compile_step(*work(1)[1][:3], "0" * 64)
    manifest = replace(Manifest.from_json(outputs["manifest"]), key="0" * 64)
    stub = STUB.format(outputs={**outputs, "manifest": manifest.to_json().encode()})
    with tempfile.TemporaryDirectory() as folder:
        cluster = Loopback(Path(folder))
        try:
            for _ in range(options.workers):
                cluster.worker(stub)
            start = 0
            with Stub(cluster.address, 1, warn=print) as farm:
                for count in options.actions:
                    measure(cluster, farm, count, start, options.threads)
                    start += count
                print(farm.report())
        finally:
            cluster.close()


if __name__ == "__main__":
    main()
