"""What LLVM is asked to generate code for, whichever way it is reached."""

from __future__ import annotations

from dataclasses import dataclass

# The LLVM that the supported line of llvmlite (configs/toolchain.yaml) carries. Keys hold the
# package's version alone, so a package that was built with another LLVM is refused.
LLVM_VERSION = (22, 1)
# LLVM in the worker's process, or as programs: `opt`, and what generates the code of its output.
ROUTES = ("llvmlite", "llc", "clang")


@dataclass(frozen=True, slots=True)
class Machine:
    """What code is generated for. cpu: a fixed level name, never that of the build machine.

    speed: the level of the pass pipeline; passes: these alone instead, by the names that `opt`
    gives them, among those of `toolchain`. opt: the level of the code generator.
    """

    triple: str
    cpu: str
    features: str = ""
    speed: int = 1
    opt: int = 2
    reloc: str = "pic"
    codemodel: str = "small"
    passes: tuple[str, ...] = ()


class LlvmError(Exception):
    """IR that LLVM does not accept, which is a bug of an emitter, or an LLVM of another version."""

    crashed = False


class LlvmCrashError(LlvmError):
    """A program of LLVM that a signal ended."""

    crashed = True
