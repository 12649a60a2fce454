"""`llc` as a program: LLVM IR in, a SPIR-V module out.

A fresh process for each module: LLVM 22's backend keeps numbers of blocks from one module to the
next within a process, and then gives invalid ones. It also ends its process by a signal on input
that it does not take.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess

from ..llvm import external
from ..llvm.machine import LlvmCrashError, LlvmError

SECONDS = 60
# The version that the triple asks for is at least 1.4: `corrections` states the target's.
TRIPLES = {
    "vulkan1.1": "spirv-unknown-vulkan1.1-compute",
    "vulkan1.3": "spirv1.6-unknown-vulkan1.3-compute",
}
_QUIET = {"LLVM_DISABLE_CRASH_REPORT": "1", "LLVM_DISABLE_SYMBOLIZATION": "1"}
# What ends a program by its own fault, as LLVM does on what this backend of it does not take.
_OWN = frozenset((signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV))
_PASS = re.compile(r"Running pass '(.*?)' on")


class LlcError(Exception):
    """A module that `llc` gives nothing for: its own words."""


class LlcTimeoutError(LlcError):
    """`llc` was not done in time."""


def compile_module(ir: str, arch: str, seconds: float = SECONDS) -> bytes:
    """The words of the module of an IR text, as LLVM writes it. LlcError and LlvmError (there is
    no `llc`, or it was ended) say why there is none."""
    # No optimisation: LLVM's passes rewrite addresses and comparisons into forms that its own
    # backend does not take.
    command = [program()[0], "-O0", "-filetype=obj", "-o", "-", "-"]
    text = f'target triple = "{TRIPLES[arch]}"\n{ir}'.encode()
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, timeout=seconds, env={**os.environ, **_QUIET}
        )
    except subprocess.TimeoutExpired as error:
        raise LlcTimeoutError(f"llc was not done after {seconds:g} seconds") from error
    if done.returncode < 0 and -done.returncode not in _OWN:
        how = external.ending(done.returncode)
        raise LlvmCrashError(f"llc was ended by {how} from outside, as for want of memory")
    if done.returncode:
        raise LlcError(_words(done.returncode, done.stderr.decode("utf-8", "replace")))
    return done.stdout


def program() -> tuple[str, str]:
    """Path and version of `llc`. LlvmError where there is none of the right version."""
    return external.program("llc", "spirv_codegen=llc")


def identity() -> str:
    """Name and version for the action key; `llc missing` where it is not there."""
    try:
        return f"llc {program()[1]}"
    except LlvmError:
        return "llc missing"


def _words(status: int, errors: str) -> str:
    """What llc says, in one line: its first message, else the pass in which it ended."""
    for line in errors.splitlines():
        if "error:" in line or "LLVM ERROR" in line or "Assertion" in line:
            words = line.rpartition("error: ")[2] or line.strip()
            return words.removeprefix("LLVM ERROR: ")
    ended = f"llc ended by signal {-status}" if status < 0 else f"llc ended with status {status}"
    found = _PASS.findall(errors)
    return f"{ended} in its pass '{found[-1]}'" if found else ended
