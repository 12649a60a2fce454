"""The emulator behind the test double of the HSA runtime: what a device launches is executed
instruction by instruction, on the bytes that ship."""

from __future__ import annotations

import threading

import numpy as np

from amdgpu_emulator import CodeObject, Memory, dispatch
from fake_hsa import Dispatch, FakeRuntime


class Emulated:
    """Runs the dispatches of a double's GPUs. instructions: of all waves so far."""

    def __init__(self, fake: FakeRuntime, rng: np.random.Generator) -> None:
        self._fake, self._rng = fake, rng
        self._lock = threading.Lock()  # queues have threads of their own
        self.instructions = 0

    def run(self, launch: Dispatch) -> None:
        """Execute a dispatch. A kernel reaches what is allocated, and nothing else."""
        code = CodeObject.read(launch.elf)
        (kernel,) = code.kernels
        memory = Memory()
        for n, (address, size) in enumerate(self._fake.allocations()):
            memory.add(address, size, f"allocation {n}")
        memory.add(launch.packet, 64, "packet", writable=False)
        with self._lock:
            stats = dispatch(
                code,
                kernel,
                launch.grid,
                launch.workgroup,
                launch.kernarg,
                memory,
                rng=self._rng,
                packet_address=launch.packet,
            )
            self.instructions += stats.instructions
