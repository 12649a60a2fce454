"""PTX kernels without a GPU: the LLVM IR text that becomes PTX, compiled for the host and run.

What this can show: wrong code of the emitter (values, control flow, ids, the packed parameters),
accesses outside of buffers and arrays, off their alignment or into memory that is only to be read,
races within a block, workgroup memory read before it is written, barriers that not all threads
reach, shuffles without the lanes that they name, special registers outside of the ranges that the
emitter promised LLVM. The optimiser's passes are those that PTX goes through.

What it cannot: LLVM's code generator for PTX, the assembler and the hardware. Arithmetic is the
host's, so a contraction by ptxas, a flushed denormal (`atom.add.f32`), the error of `ex2.approx`
and its like, the order of -0 and 0 in `min.f32` and the payload of a NaN are not seen. Memory is as
ordered as the host's: a missing fence does not show. Blocks of a cluster run together, each with
workgroup arrays of its own, and without a watch for races; others run one after the other: those
that wait for each other end by a limit of time.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.backends.compile import Options
from gristmill.backends.llvm import toolchain
from gristmill.backends.ptx import shared
from gristmill.backends.ptx.emit import find_arch, prepare, write
from gristmill.ir import abi
from gristmill.ir.core import Kernel
from gristmill.ir.extensions import cluster, used
from gristmill.runtime.launch import folded

from .entry import entry_text
from .maps import maps_of
from .retarget import Rewriter

LIMITS = (2**31 - 1, 65535, 65535)
Edit = Callable[[str], str]
_SOURCES = Path(__file__).parent / "runtime"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden")


class ModelError(AssertionError):
    """What the model found wrong with a launch."""


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ptx-model-"))
    atexit.register(shutil.rmtree, folder, True)
    return folder


@functools.cache
def runtime() -> Path:
    """The library of the model's functions, built once a process."""
    library = _folder() / "libptxmodel.so"
    sources = sorted(map(str, _SOURCES.glob("*.c")))
    subprocess.run(["gcc", *_FLAGS, "-o", library, *sources, "-lm", "-ldl"], check=True)
    return library


@functools.cache
def functions() -> ctypes.CDLL:
    """The library in this process."""
    lib = ctypes.CDLL(str(runtime()), mode=ctypes.RTLD_GLOBAL)
    lib.model_error.restype = ctypes.c_char_p
    lib.model_seed.argtypes = [ctypes.c_uint64]
    return lib


@functools.cache
def _machine() -> toolchain.Machine:
    from llvmlite import binding

    triple = binding.get_default_triple()
    fused = binding.get_host_cpu_features().get("fma") and os.uname().machine == "x86_64"
    return toolchain.Machine(triple, "x86-64-v3" if fused else "", speed=2, opt=1)


def host_text(kernel: Kernel, arch: str, edit: Edit | None = None) -> str:
    """LLVM IR for the host of a prepared kernel, with its entry. NotModelledError.

    edit: changes the emitter's text first, for tests that break it.
    """
    text = write(kernel, find_arch(kernel.name, arch))
    text = edit(text) if edit else text
    dynamic = shared.dynamic_bytes(shared.place_arrays(kernel))
    memory, counter = len(abi.memory_params(kernel.params)), "grid_barrier" in used(kernel)
    made = Rewriter(memory, bool(kernel.sites), dynamic, counter, cluster(kernel) > 1).run(text)
    return f"{made.text}\n{entry_text(kernel, made, dynamic)}\n"


_numbers = itertools.count()


def build(kernel: Kernel, arch: str = "sm_80", edit: Edit | None = None) -> Path:
    """A shared library with the entry of a prepared kernel, for `ptx-arch`."""
    stem = _folder() / f"{kernel.name}{next(_numbers)}"
    made = stem.with_suffix(".o")
    made.write_bytes(toolchain.emit_object(host_text(kernel, arch, edit), _machine()))
    library = runtime()
    command = ["gcc", "-shared", "-nostdlib", "-o", f"{stem}.so", made, library, "-lgcc", "-lm"]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    made.unlink()
    return stem.with_suffix(".so")


class Model:
    """A traced kernel on the model."""

    def __init__(
        self, kernel: Kernel, arch: str = "sm_80", checks: bool = False, edit: Edit | None = None
    ) -> None:
        self.prepared = prepare(kernel, Options(checks=checks), find_arch(kernel.name, arch))
        self.file = build(self.prepared, arch, edit)
        self.dynamic = shared.dynamic_bytes(shared.place_arrays(self.prepared))
        self.entry = getattr(ctypes.CDLL(str(self.file)), kernel.name)

    def run(
        self,
        args: Sequence[Any],
        grid: tuple[int, int, int],
        *,
        seed: int = 0,
        launched: tuple[int, int, int] | None = None,
        fault_base: int = 0,
        block: tuple[int, int, int] | None = None,
        dynamic: int | None = None,
    ) -> frozenset[int]:
        """Run over the grid; arrays are modified in place. The fault sites that were hit.

        launched: the grid as the hardware gets it; none: as the runtime would fold it. ModelError.
        """
        kernel, params = self.prepared, self.prepared.params
        pairs = list(zip(params, args, strict=True))
        copies = [_aligned(a) for p, a in pairs if p.is_memory]
        scalars = [abi.scalar_bits(a, p.dtype) for p, a in pairs if not p.is_memory]
        faults = np.zeros((fault_base + len(kernel.sites)) // 32 + 1, np.uint32)
        counter = np.zeros(1, np.uint32)
        packed = abi.gpu_bytes(
            params,
            bool(kernel.sites),
            [a.ctypes.data for a in copies],
            scalars,
            [a.size for a in copies],
            faults.ctypes.data,
            fault_base,
            grid,
            counter.ctypes.data if "grid_barrier" in used(kernel) else None,
            maps_of(kernel, pairs, copies),
        )
        if launched is None:
            fits = all(n <= most for n, most in zip(grid, LIMITS, strict=True))
            launched = grid if fits else folded(grid, LIMITS, kernel.name)
        self._launch(packed, launched, block or kernel.workgroup, dynamic, seed)
        buffers = [a for p, a in pairs if p.is_memory]
        for buffer, copy in zip(buffers, copies, strict=True):
            if buffer.flags.writeable:
                buffer[...] = copy.reshape(buffer.shape)
        bits = int.from_bytes(faults.tobytes(), "little") >> fault_base
        return frozenset(n for n in range(len(kernel.sites)) if bits >> n & 1)

    def _launch(
        self,
        packed: bytes,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic: int | None,
        seed: int,
    ) -> None:
        three = ctypes.c_uint32 * 3
        functions().model_seed(seed)
        asked = self.dynamic if dynamic is None else dynamic
        room = np.zeros(len(packed) + 64, np.uint8)  # tensor maps lie at multiples of 64
        start = -room.ctypes.data % 64
        room[start : start + len(packed)] = np.frombuffer(packed, np.uint8)
        place = ctypes.c_void_p(room.ctypes.data + start)
        if self.entry(place, three(*grid), three(*block), ctypes.c_uint32(asked)):
            raise ModelError(functions().model_error().decode())


def _aligned(array: np.ndarray) -> np.ndarray:
    """A flat copy at a multiple of 256 bytes, as the driver gives memory."""
    room = np.zeros(array.nbytes + 256, np.uint8)
    at = -room.ctypes.data % 256
    copy = room[at : at + array.nbytes].view(array.dtype)
    copy[:] = array.reshape(-1)
    return copy
