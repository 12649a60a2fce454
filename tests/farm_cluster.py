"""A Dask cluster of processes on this machine, all of which end with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gristmill.backends.farm.farm import Farm
from gristmill.store.digest import stage_digest
from gristmill.store.key import Action, compile_action

STEP = "gristmill.backends.steps:compile_step"
KIR = """\
kernel k case
param x: f32 buffer readwrite
workgroup {size} 1 1
index i32
body(%x.0: buffer<f32,readwrite>) {{
  %i.1 = global_id {{dim=0}} : i32
{more}  %2 = const 1.0 : f32
  store %x.0, %i.1, %2
  return
}}
"""

# Tells a file that a worker serves: Dask calls `dask_setup` before the scheduler knows of it.
READY = """
async def _tell(worker):
    import asyncio
    while worker.status.name != "running":
        await asyncio.sleep(0.01)
    open({}, "w").write(worker.address)
def dask_setup(worker):
    worker.loop.add_callback(_tell, worker)
"""


def work(size: int, more: str = "") -> tuple[Action, tuple[str, str, dict[str, bool], str]]:
    """An action that takes a few milliseconds, and the arguments of its step."""
    text = KIR.format(size=size, more=more)
    action = compile_action(
        text.encode(), "interp-kir", {"checks": False}, stage_digest("interp"), ()
    )
    return action, (text, "interp-kir", {"checks": False}, action.key)


class Loopback:
    """A scheduler and its workers. folder: for their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        words = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        self.scheduler = self._start("scheduler", *words)
        self.wait(lambda: file.exists() and file.read_text().endswith("}"), "a scheduler")
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, preload: str = "", **environment: str) -> subprocess.Popen[bytes]:
        """A worker that has begun to serve. preload: Python that it executes before."""
        words = ["--no-nanny", "--nthreads", "2", "--local-directory", str(self.folder)]
        ready = self.folder / f"ready{len(self.processes)}"
        code = READY.format(repr(str(ready)))
        script = self.folder / f"preload{len(self.processes)}.py"
        script.write_text(f"{preload}\n{code}")
        found = self._start("worker", self.address, *words, "--preload", str(script), **environment)
        self.wait(lambda: ready.exists() and ready.read_text() != "", "a worker")
        self.last = ready.read_text()
        return found

    def _start(self, kind: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / f"{kind}{len(self.processes)}.log", "wb")  # noqa: SIM115
        with log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", kind, *words, "--no-dashboard"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def wait(self, ready: Callable[[], bool], what: str, seconds: float = 90) -> None:
        """Until something is there; the end of the logs where it does not come."""
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline or self.processes[-1].poll() is not None:
                logs = [p.read_text()[-1500:] for p in sorted(self.folder.glob("*.log"))]
                raise AssertionError(f"{what} does not come up:\n" + "\n".join(logs))
            time.sleep(0.02)

    def farm(self, warnings: list[str], **options: object) -> Farm:
        """A client of it that audits first results alone."""
        given = {"jobs": 1, "warn": warnings.append, "audited": 0.0, **options}
        return Farm(self.address, **given)  # type: ignore[arg-type]

    def close(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(timeout=30)
