"""The assemblers that make a cubin of PTX: the program `ptxas`, else nvJitLink in this process.

Both come from PyPI (`nvidia-cuda-nvcc`; `nvidia-nvjitlink`, the extra `cubin`), need no GPU and no
driver, and run in a worker process: what a foreign library does to its process hurts one kernel.
ptxas goes first: nvJitLink compiles for linking (`ptxas -c`), which takes more registers, and made
kernels up to an eighth slower where the driver's own compiler and ptxas agree (measured).
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

_PTX = 2  # nvJitLink's number of the input type
_PACKAGE = "nvidia-nvjitlink"
_SECONDS, _VERSION_SECONDS = 600, 10
MISSING = "assembler missing"


class AssemblerError(Exception):
    """No assembler, or one that does not take the PTX: its own words."""


@lru_cache
def identity() -> str:
    """Name and version of the assembler that `assemble` uses; `MISSING` where there is none."""
    program = ptxas()
    if program is not None:
        return f"ptxas {'.'.join(map(str, version(program)))}"
    if library() is not None:
        return f"nvjitlink {importlib.metadata.version(_PACKAGE)}"
    return MISSING


def assemble(ptx: bytes, arch: str) -> tuple[bytes, str]:
    """The cubin of a PTX text, and what the assembler says about it. AssemblerError if none."""
    program = ptxas()
    if program is not None:
        return _assembled(str(program), ptx, arch)
    path = library()
    if path is not None:
        return _linked(str(path), ptx, arch)
    raise AssemblerError(
        "no assembler: install the extra cubin (pip install 'gristmill[cubin]'), or put a ptxas "
        "that tells its version on PATH"
    )


def library() -> Path | None:
    """nvJitLink's shared library: the file of the package whose version the key holds, not one
    that a package for another CUDA has put beside it."""
    try:
        files = importlib.metadata.distribution(_PACKAGE).files or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(f.locate())) for f in files if f.name.startswith("libnvJitLink.so")]
    return next((path for path in found if path.exists()), None)


def ptxas() -> Path | None:
    """The newest program among NVIDIA's packages and on PATH."""
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    found = [p for place in places for p in sorted(Path(place).glob("*/bin/ptxas"))]
    if on_path := shutil.which("ptxas"):
        found.append(Path(on_path))
    # One that does not tell its version is none: the key of what it makes could not name it.
    return max(filter(version, found), key=version, default=None)


@lru_cache
def version(program: Path) -> tuple[int, ...]:
    """The version of a ptxas as the program tells it; empty where it tells none."""
    try:
        told = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"\bV(\d+(?:\.\d+)+)", told.stdout)
    return tuple(map(int, found[1].split("."))) if found else ()


def _assembled(program: str, ptx: bytes, arch: str) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_bytes(ptx)
        command = [program, f"-arch={arch}", "-v", "-o", str(out), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AssemblerError(f"ptxas was not done after {_SECONDS} seconds") from error
        if done.returncode or not out.exists():
            raise AssemblerError(_words(done.stderr.replace(folder + "/", "")))
        return out.read_bytes(), done.stderr


def _words(log: str) -> str:
    return "; ".join(filter(None, map(str.strip, log.splitlines()))) or "no message"


@lru_cache
def _load(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def _linked(path: str, ptx: bytes, arch: str) -> tuple[bytes, str]:
    link = _load(path)
    handle = ctypes.c_void_p()
    words = [f"-arch={arch}".encode(), b"-verbose"]
    options = (ctypes.c_char_p * len(words))(*words)
    status = link.nvJitLinkCreate(ctypes.byref(handle), len(words), options)
    if status:
        raise AssemblerError(f"nvJitLink does not know {arch} (status {status})")
    try:
        size = ctypes.c_size_t(len(ptx))
        status = link.nvJitLinkAddData(handle, _PTX, ctypes.c_char_p(ptx), size, b"kernel")
        if status or link.nvJitLinkComplete(handle):
            raise AssemblerError(_words(_text(link, handle, "ErrorLog")))
        return _bytes(link, handle, "LinkedCubin"), _text(link, handle, "InfoLog")
    finally:
        link.nvJitLinkDestroy(ctypes.byref(handle))


def _bytes(link: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    status = getattr(link, f"nvJitLinkGet{what}Size")(handle, ctypes.byref(size))
    block = ctypes.create_string_buffer(max(size.value, 1))
    status = status or getattr(link, f"nvJitLinkGet{what}")(handle, block)
    if status:
        raise AssemblerError(f"nvJitLink gives no {what} (status {status})")
    return block.raw[: size.value]


def _text(link: ctypes.CDLL, handle: ctypes.c_void_p, what: str) -> str:
    return _bytes(link, handle, what).rstrip(b"\0").decode("utf-8", "replace")
