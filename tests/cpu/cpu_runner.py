"""Compiling a kernel for a cpu level and running it: here, or for aarch64 under qemu."""

from __future__ import annotations

import atexit
import ctypes
import functools
import math
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.backends.compile import Options, compile_kernel
from gristmill.backends.pool import Pool
from gristmill.ir import abi
from gristmill.ir.core import Kernel, Param
from gristmill.ir.text import print_kernel
from gristmill.runtime.devices.cpu.level import targets
from gristmill.store.manifest import Manifest

X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
ARCHS = (*X86, "aarch64")
_QEMU, _CROSS = "qemu-aarch64", "aarch64-linux-gnu-gcc"
_SYSROOT = "/usr/aarch64-linux-gnu"


@functools.cache
def pool() -> Pool:
    """The compiler processes of this test run."""
    made = Pool(1, timeout=120)
    atexit.register(made.close)
    return made


def missing(arch: str) -> str:
    """Why this machine cannot run an architecture; empty where it can."""
    if arch == "aarch64":
        lacking = [tool for tool in (_QEMU, _CROSS) if shutil.which(tool) is None]
        return f"no {', '.join(lacking)}" if lacking else ""
    return "" if f"cpu-{arch}" in targets() else f"this processor is below {arch}"


def compiled(kernel: Kernel, arch: str, checks: bool = False) -> tuple[bytes, Manifest]:
    """The artifact, made in a compiler process as the build does."""
    text = print_kernel(kernel)
    function = f"{compile_kernel.__module__}:compile_kernel"
    return pool().run(function, text, f"cpu-{arch}", Options(checks=checks))


class Artifact:
    """A compiled kernel, ready to run."""

    def __init__(self, kernel: Kernel, arch: str, checks: bool = False) -> None:
        self.kernel, self.arch = kernel, arch
        self.blob, self.manifest = compiled(kernel, arch, checks)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "kernel.so"
        self.path.write_bytes(self.blob)
        self.library = None if arch == "aarch64" else ctypes.CDLL(str(self.path))

    def run(self, args: Sequence[Any], grid: tuple[int, int, int]) -> frozenset[int]:
        """Run over the grid; arrays are modified in place. The fault sites that were hit."""
        faults = np.zeros(8, np.uint32)
        buffers = [a for p, a in zip(self.kernel.params, args, strict=True) if p.is_memory]
        words = self.words(args, grid, [b.ctypes.data for b in buffers], faults.ctypes.data)
        total = math.prod(grid)
        if self.library is None:
            self._emulate(words, [*buffers, faults], total)
        else:
            scratch = np.zeros(self.manifest.scratch_bytes + 64, np.uint8)
            block = ctypes.create_string_buffer(words, len(words))
            address = ctypes.c_void_p(-(-scratch.ctypes.data // 64) * 64)
            # In two parts, as two workers would.
            for first, last in ((0, total // 2), (total // 2, total)):
                entry = getattr(self.library, self.manifest.entry)
                entry(block, ctypes.c_uint32(first), ctypes.c_uint32(last), address)
        bits = int.from_bytes(faults.tobytes(), "little")
        return frozenset(n for n in range(len(self.kernel.sites)) if bits >> n & 1)

    def words(
        self, args: Sequence[Any], grid: tuple[int, int, int], addresses: list[int], faults: int
    ) -> bytes:
        """The argument array."""
        pairs = list(zip(self.kernel.params, args, strict=True))
        scalars = [_bits(p, a) for p, a in pairs if not p.is_memory]
        counts = [a.size for p, a in pairs if p.is_memory]
        return abi.cpu_words(addresses, scalars, counts, faults, 0, grid)

    def _emulate(self, words: bytes, buffers: list[np.ndarray], total: int) -> None:
        job, out = (Path(self.folder.name) / n for n in ("job", "out"))
        fault_word = len(words) // 8 - 5
        places = [*range(len(buffers) - 1), fault_word]
        head = [len(words) // 8, len(buffers), total, self.manifest.scratch_bytes]
        with job.open("wb") as file:
            file.write(struct.pack("<4Q", *head) + words)
            for place, buffer in zip(places, buffers, strict=True):
                file.write(struct.pack("<2Q", place, buffer.nbytes) + buffer.tobytes())
        command = [
            _QEMU,
            "-L",
            _SYSROOT,
            str(driver()),
            str(self.path),
            self.manifest.entry,
            str(job),
            str(out),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        data, at = out.read_bytes(), 0
        for buffer in buffers:
            flat = np.frombuffer(data, buffer.dtype, buffer.size, at)
            buffer.reshape(-1)[:] = flat
            at += buffer.nbytes


def _bits(param: Param, value: Any) -> int:
    return abi.scalar_bits(value, param.dtype)


@functools.cache
def driver() -> Path:
    """The program that loads an artifact on aarch64."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, True)
    source = Path(__file__).with_name("aarch64_driver.c")
    subprocess.run([_CROSS, "-O1", "-o", folder / "driver", source, "-ldl"], check=True)
    return folder / "driver"
