"""Compiling for HSACO as the build does, in a compiler process, and running the bytes emulated."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amdgpu_emulator import CodeObject, Memory, dispatch
from gristmill.backends.compile import Options, compile_kernel
from gristmill.backends.hsaco.emit import check_label
from gristmill.backends.pool import Pool
from gristmill.backends.trace import trace
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.runtime.launch import folded
from gristmill.store.manifest import Manifest
from gristmill_build import config, options, plan, sources

ROOT = Path(__file__).parents[2]
BASELINES = ("gfx1100", "gfx1201", "gfx942")
MOST_ITEMS = 2**32 - 1
Triple = tuple[int, int, int]
_TRACED: dict[str, Kernel] = {}  # by the path of the trace, for tests of several targets


@functools.cache
def pool() -> Pool:
    """The compiler processes of this test run."""
    made = Pool(1, timeout=120)
    atexit.register(made.close)
    return made


def compiled(
    kernel: Kernel, arch: str, checks: bool = False, llvm: str = "llvmlite"
) -> tuple[bytes, Manifest]:
    """The code object of a kernel, checked against its label."""
    function = f"{compile_kernel.__module__}:compile_kernel"
    asked = Options(checks=checks, llvm=llvm)
    blob, manifest = pool().run(function, print_kernel(kernel), f"hsaco-{arch}", asked)
    check_label(blob, manifest)
    return blob, manifest


def lanes(arch: str) -> int:
    """The usual size of a subgroup."""
    return 64 if arch.startswith("gfx9") else 32


def shipped(target: str) -> Iterator[tuple[str, Kernel]]:
    """The kernels that a build for `target` compiles, by their path within it."""
    settings = config.load(ROOT)
    for step in plan.plan(options.choose({"target": target}, settings), settings).traces:
        if step.stem not in _TRACED:
            row = step.row
            paths = sources.module_sources(ROOT, row.module)
            files = {path: (ROOT / path).read_bytes() for path in paths}
            text, _ = trace(files, row.module, row.kernel, step.specialization, step.constexprs)
            _TRACED[step.stem] = parse_kernel(text.decode())
        yield step.stem.partition("/kir/")[2], _TRACED[step.stem]


def usual() -> set[str]:
    """What a build makes where no architecture is named."""
    rows = config.load(ROOT).targets.values()
    return {row.arch for row in rows if row.baseline and row.backend == "hsaco"}


class Emulated:
    """A kernel whose code object runs on the emulator. paired: see `counters.Waits`."""

    def __init__(
        self, kernel: Kernel, arch: str, checks: bool = False, paired: bool = True
    ) -> None:
        blob, self.manifest = compiled(kernel, arch, checks)
        self.paired = paired
        self.kernel, self.code = kernel, CodeObject.read(blob)

    def run(
        self,
        args: Sequence[Any],
        grid: Triple,
        rng: np.random.Generator,
        *,
        launched: Triple | None = None,
        fault_base: int = 0,
    ) -> frozenset[int]:
        """Run over the grid; arrays are modified in place. The fault sites that were hit.

        launched: workgroups as the hardware gets them; none: as the runtime would fold the grid.
        """
        params, sites = self.kernel.params, len(self.manifest.sites)
        pairs = list(zip(params, args, strict=True))
        memory = Memory()
        copies = [(p, aligned(a)) for p, a in pairs if p.is_memory]
        for p, a in copies:
            memory.add_array(a, p.name, p.access.value != "read")
        faults = np.zeros((fault_base + sites) // 32 + 1, np.uint32)
        memory.add_array(faults, "faults")
        counter = np.zeros(1, np.uint32)
        memory.add_array(counter, "barrier of the grid")
        packed = abi.gpu_bytes(
            params,
            bool(sites),
            [a.ctypes.data for _, a in copies],
            [abi.scalar_bits(a, p.dtype) for p, a in pairs if not p.is_memory],
            [np.asarray(a).size for p, a in pairs if p.is_memory],
            faults.ctypes.data,
            fault_base,
            grid,
            counter.ctypes.data if "grid_barrier" in self.manifest.facts else None,
        )
        # LLVM reads three words as four, within the 16 bytes that such a block is a multiple of.
        room = -(-self.manifest.facts["kernarg_bytes"] // 16) * 16
        block = np.frombuffer(packed.ljust(room, b"\0"), np.uint8)
        address = memory.add_array(block, "kernarg", False)
        size = self.kernel.workgroup
        most = (MOST_ITEMS // size[0], 65535, 65535)
        x, y, z = launched or folded(grid, most, self.kernel.name)
        items = (x * size[0], y * size[1], z * size[2])
        name = self.manifest.entry
        dispatch(self.code, name, items, size, address, memory, rng=rng, paired=self.paired)
        buffers = [a for p, a in pairs if p.is_memory]
        for buffer, (_, copy) in zip(buffers, copies, strict=True):
            if buffer.flags.writeable:
                buffer[...] = copy[: buffer.size].reshape(buffer.shape)
        bits = int.from_bytes(faults.tobytes(), "little") >> fault_base
        return frozenset(n for n in range(sites) if bits >> n & 1)


def aligned(array: np.ndarray) -> np.ndarray:
    """A flat copy at a multiple of 256 bytes, of a multiple of 16 bytes, as the runtime gives
    memory."""
    size = max(-(-array.nbytes // 16) * 16, 16)
    room = np.zeros(size + 256, np.uint8)
    at = -room.ctypes.data % 256
    copy = room[at : at + size].view(array.dtype)
    copy[: array.size] = array.reshape(-1)
    return copy
