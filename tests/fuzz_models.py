"""Models of machines as targets of the fuzzer: `--device python:fuzz_models.ptx` and so on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.backends.compile import CompileError
from gristmill.fuzz.program import Program
from gristmill.fuzz.targets import Faults, InvalidError, RefusedError, Traits

HERE = Path(__file__).parent
PTX_ARCHS = ("sm_80", "sm_75", "sm_90")


class PtxModel:
    """The LLVM IR that becomes PTX, on the host."""

    def __init__(self) -> None:
        self.name = "PTX on the host model"
        self.traits = replace(Traits(), subgroups=(32,))

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        from ptx_model.host import Model

        arch, checks = PTX_ARCHS[program.variant % len(PTX_ARCHS)], program.variant % 4 == 3
        arguments = program.arguments()
        try:
            model = Model(program.kernel, arch, checks)
        except CompileError as error:
            raise RefusedError(error.message) from error
        faults = model.run(arguments, program.grid, seed=program.variant)
        return arguments, Faults.of(faults)

    def close(self) -> None:
        pass


class Aarch64:
    """The cpu's code for aarch64, in qemu."""

    def __init__(self) -> None:
        sys.path.append(str(HERE / "cpu"))
        self.name, self.traits = "aarch64 in qemu", Traits(subgroups=(2, 4, 8, 16, 32))

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        from cpu_runner import Artifact

        arguments = program.arguments()
        try:
            made = Artifact(program.kernel, "aarch64", program.variant % 4 == 3)
        except CompileError as error:
            raise RefusedError(error.message) from error
        return arguments, Faults.of(made.run(arguments, program.grid))

    def close(self) -> None:
        pass


class AmdEmulator:
    """A code object on the emulator, as it ships."""

    def __init__(self, arch: str) -> None:
        for folder in ("tests/hsaco", "site_scons"):
            sys.path.append(str(HERE.parent / folder))
        self.arch, self.name = arch, f"emulated {arch}"
        self.traits = replace(Traits(), subgroups=(64,) if arch.startswith("gfx9") else (32,))

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        from hsaco_tools import Emulated

        arguments = program.arguments()
        try:
            made = Emulated(program.kernel, self.arch, checks=program.variant % 4 == 3)
        except CompileError as error:
            raise (InvalidError if "label" in error.message else RefusedError)(
                error.message
            ) from error
        rng = np.random.default_rng(program.variant)
        return arguments, Faults.of(made.run(arguments, program.grid, rng))

    def close(self) -> None:
        pass


def aarch64() -> Aarch64:
    return Aarch64()


def ptx() -> PtxModel:
    return PtxModel()


def gfx1100() -> AmdEmulator:
    return AmdEmulator("gfx1100")


def gfx1201() -> AmdEmulator:
    return AmdEmulator("gfx1201")


def gfx942() -> AmdEmulator:
    return AmdEmulator("gfx942")
