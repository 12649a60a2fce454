"""Running kernels on a Vulkan driver of this machine, beside the interpreter."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.backends.compile import Emitted
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from need import driver_file

FOLD = 65535


class DriverError(AssertionError):
    """The driver's process ended or refused a job."""


class Driver:
    """One Vulkan driver in a process of its own; started again after a crash."""

    CHILD = Path(__file__).with_name("vulkan_child.py")

    def __init__(self, name: str) -> None:
        self.label = name
        self.manifest = Path(name) if os.sep in name else driver_file(name)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        environment = dict(os.environ, VK_DRIVER_FILES=str(self.manifest))
        environment["VK_ICD_FILENAMES"] = str(self.manifest)
        self.process = subprocess.Popen(
            [sys.executable, str(self.CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        self.name, self.features, self.subgroup = self.receive()

    def receive(self) -> Any:
        assert self.process is not None
        assert self.process.stdout is not None
        try:
            return pickle.load(self.process.stdout)
        except EOFError:
            _, errors = self.process.communicate()
            status, self.process = self.process.returncode, None
            text = errors.decode(errors="replace")[-2000:]
            raise DriverError(f"{self.label}: process ended with {status}: {text}") from None

    def submit(self, job: dict[str, Any]) -> list[bytes]:
        if self.process is None:
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        pickle.dump(job, self.process.stdin)
        self.process.stdin.flush()
        answer = self.receive()
        if isinstance(answer, str):  # the device may be lost: the next job gets a fresh one
            self.close()
            self.process = None
            raise DriverError(f"{self.label}: {answer}")
        return answer

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()

    def lacks(self, emitted: Emitted) -> set[str]:
        """The required features that this device does not have."""
        return set(emitted.requires) - self.features

    def launch(
        self,
        kernel: Kernel,
        emitted: Emitted,
        args: Sequence[Any],
        grid: tuple[int, int, int],
        groups: tuple[int, int, int] | None = None,
        counts: Sequence[int] | None = None,
        fault_base: int = 0,
    ) -> np.ndarray:
        """Run with `args` as `interp.run` takes them, buffers in place; gives the fault words."""
        pairs = list(zip(kernel.params, args, strict=True))
        buffers = [a for p, a in pairs if p.is_memory]
        scalars = [abi.scalar_bits(a, p.dtype) for p, a in pairs if not p.is_memory]
        counts = counts or [len(b) for b in buffers]
        words = abi.words(kernel.params, kernel.index, scalars, counts, fault_base, grid)
        blobs = [b.tobytes() for b in buffers]
        faults = np.zeros(max(1, (fault_base + len(emitted.sites) + 31) // 32), np.uint32)
        if emitted.sites:
            blobs.append(faults.tobytes())
        if groups is None:
            total = int(np.prod(grid))
            folded = (min(total, FOLD), -(-total // FOLD), 1)
            groups = grid if max(grid) <= FOLD else folded
        results = self.submit(
            {
                "blob": emitted.blob,
                "entry": emitted.entry,
                "buffers": blobs,
                "uniform": (len(buffers), words.tobytes()),
                "groups": groups,
                "subgroup": kernel.subgroup,
            }
        )
        if emitted.sites:
            faults = np.frombuffer(results.pop(), np.uint32)
        for buffer, data in zip(buffers, results, strict=True):
            buffer[:] = np.frombuffer(data, buffer.dtype)
        return faults
