"""LLVM as programs: `opt` and `llc` of the same major.minor version give the bytes that llvmlite's
LLVM gives (a test compares them), for those who must build with their distribution's LLVM.

Looked for as `opt-22` and `llc-22`, then `opt` and `llc`, on PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import lru_cache

from .machine import LLVM_VERSION, LlvmError, Machine

_SECONDS = 300


@lru_cache
def program(name: str, option: str = "toolchain=llc") -> tuple[str, str]:
    """Path and version of `opt` or `llc`. LlvmError where there is none of the right version.

    option: what asks for it.
    """
    expected = ".".join(map(str, LLVM_VERSION))
    seen = []
    for candidate in (f"{name}-{LLVM_VERSION[0]}", name):
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            told = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired as error:
            raise LlvmError(f"{path} --version was not done after 60 seconds") from error
        found = re.search(r"LLVM version ([\d.]+)", told.stdout)
        version = found[1] if found else "unknown"
        if version.startswith(expected + "."):
            return path, version
        seen.append(f"{candidate} is {version}")
    what = f"; {', '.join(seen)}" if seen else ""
    raise LlvmError(f"{option} needs {name} of LLVM {expected} on PATH{what}")


def identity() -> str:
    """Name and version for the action key; `llc missing` where the programs are not there."""
    try:
        return f"llc {program('llc')[1]} opt {program('opt')[1]}"
    except LlvmError:
        return "llc missing"


def emit(ir: str, machine: Machine, kind: str) -> bytes:
    """Optimise and assemble a module. kind: `asm` or `obj`."""
    text = f'target triple = "{machine.triple}"\n{ir}'.encode()
    chosen = (f"-mcpu={machine.cpu}", f"-mattr={machine.features}")
    named = f"function({','.join(machine.passes)})" if machine.passes else ""
    passes = (
        f"-passes={named or f'default<O{machine.speed}>'}",
        *("-vectorize-loops=false", "-vectorize-slp=false", "-interleave-loops=false"),
    )
    optimised = _run("opt", (*passes, *chosen), text)
    flags = [f"-filetype={kind}", "-asm-verbose=0", f"-O{machine.opt}", *chosen]
    if machine.reloc != "default":
        flags += [f"-relocation-model={machine.reloc}", f"-code-model={machine.codemodel}"]
    return _run("llc", flags, optimised)


def _run(name: str, flags: tuple[str, ...] | list[str], data: bytes) -> bytes:
    command = [program(name)[0], *flags, "-o", "-", "-"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LlvmError(f"{name} was not done after {_SECONDS} seconds") from error
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip()[-1000:]
        raise LlvmError(f"{name} refuses the module (status {done.returncode}): {words}")
    return done.stdout
