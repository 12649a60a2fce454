"""LLVM as programs: `opt` and then `llc` or `clang` of the same major.minor version give the bytes
that llvmlite's LLVM gives (tests compare them), for those who must build with their distribution's
LLVM.

Looked for as `opt-22`, `llc-22` and `clang-22`, then without the number, on PATH. `opt` runs the
passes for clang too, which cannot be asked for some of them; clang's own are switched off.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from functools import lru_cache
from pathlib import Path

from .machine import LLVM_VERSION, LlvmCrashError, LlvmError, Machine

_SECONDS, _VERSION_SECONDS = 300, 5


@lru_cache
def program(name: str, option: str = "toolchain=llc") -> tuple[str, str]:
    """Path and version of `opt`, `llc` or `clang`. LlvmError where there is none of the right
    version.

    option: what asks for it.
    """
    expected = ".".join(map(str, LLVM_VERSION))
    seen = []
    for candidate in (f"{name}-{LLVM_VERSION[0]}", name):
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            told = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=_VERSION_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise LlvmError(
                f"{path} --version was not done after {_VERSION_SECONDS} seconds: {option} needs"
                f" {name} of LLVM {expected} on PATH, and this one hangs"
            ) from error
        found = re.search(r"(?:LLVM|clang) version ([\d.]+)", told.stdout)
        version = found[1] if found else "unknown"
        if version.startswith(expected + "."):
            return path, version
        seen.append(f"{candidate} is {version}")
    what = f"; {', '.join(seen)}" if seen else ""
    raise LlvmError(f"{option} needs {name} of LLVM {expected} on PATH{what}")


def programs(route: str) -> dict[str, tuple[str, str]]:
    """Path and version of all that a route needs, by name. LlvmError where one is missing."""
    return {name: program(name, f"toolchain={route}") for name in (route, "opt")}


def identity(route: str) -> str:
    """Names and versions for the action key; `llc missing` where the programs are not there."""
    try:
        return " ".join(f"{name} {version}" for name, (_, version) in programs(route).items())
    except LlvmError:
        return f"{route} missing"


def emit(ir: str, machine: Machine, kind: str, route: str) -> bytes:
    """Optimise and assemble a module. kind: `asm` or `obj`. route: `llc` or `clang`."""
    paths = {name: path for name, (path, _) in programs(route).items()}
    text = f'target triple = "{machine.triple}"\n{ir}'.encode()
    chosen = (f"-mcpu={machine.cpu}", f"-mattr={machine.features}")
    named = f"function({','.join(machine.passes)})" if machine.passes else ""
    passes = (
        f"-passes={named or f'default<O{machine.speed}>'}",
        *("-vectorize-loops=false", "-vectorize-slp=false", "-interleave-loops=false"),
    )
    optimised = _run(paths["opt"], (*passes, *chosen), text)
    flags = _llc(machine, kind) if route == "llc" else _clang(machine, kind)
    return _run(paths[route], flags, optimised)


def ending(status: int) -> str:
    """The signal that ended a process, by its status below 0."""
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _llc(machine: Machine, kind: str) -> list[str]:
    chosen = (f"-mcpu={machine.cpu}", f"-mattr={machine.features}")
    flags = [f"-filetype={kind}", "-asm-verbose=0", f"-O{machine.opt}", *chosen]
    if machine.reloc != "default":
        flags += [f"-relocation-model={machine.reloc}", f"-code-model={machine.codemodel}"]
    return flags


def _clang(machine: Machine, kind: str) -> list[str]:
    """For the compiler proper: its driver adds options of its own."""
    features = [f for f in machine.features.split(",") if f]
    flags = ["-cc1", "-x", "ir", "-triple", machine.triple, "-target-cpu", machine.cpu]
    flags += [word for feature in features for word in ("-target-feature", feature)]
    flags += ["-S" if kind == "asm" else "-emit-obj", f"-O{machine.opt}", "-disable-llvm-passes"]
    flags.append("-fno-verbose-asm")
    if machine.reloc != "default":
        flags += ["-mrelocation-model", machine.reloc, f"-mcmodel={machine.codemodel}"]
    return flags


def _run(path: str, flags: tuple[str, ...] | list[str], data: bytes) -> bytes:
    name, command = Path(path).name, [path, *flags, "-o", "-", "-"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LlvmError(f"{name} was not done after {_SECONDS} seconds") from error
    words = done.stderr.decode("utf-8", "replace").strip()[-1000:]
    if done.returncode < 0:
        raise LlvmCrashError(
            f"{name} was ended by {ending(done.returncode)}; its last words: {words}"
        )
    if done.returncode:
        raise LlvmError(f"{name} refuses the module (status {done.returncode}): {words}")
    return done.stdout
