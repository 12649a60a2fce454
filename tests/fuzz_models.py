"""Models of machines, and a browser, for the fuzzer: `python:fuzz_models.ptx` and others."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gristmill.backends.compile import CompileError, Options
from gristmill.backends.wgsl.emit import emit
from gristmill.fuzz.judge import GRAPHICS
from gristmill.fuzz.program import Program
from gristmill.fuzz.targets import ALL_TYPES, Faults, InvalidError, RefusedError, Traits, refusal

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
            raise refusal(error) from error
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
            raise refusal(error) from error
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
            checks = program.variant % 4 == 3
            made = Emulated(program.kernel, self.arch, checks, paired=False)
        except CompileError as error:
            if "label" in error.message:
                raise InvalidError(error.message) from error
            raise refusal(error) from error
        rng = np.random.default_rng(program.variant)
        faults = made.run(arguments, program.grid, rng)
        return arguments, Faults.of(faults)

    def close(self) -> None:
        pass


# Vectors of zeros alone: of i32, u32 and f32, and of bool.
_NUMBERS = re.compile(r"\b(vec[234]<([iuf]32)>)\((?:(?:0i|0u|0\.0f)(?:, )?)*\)")
_FLAGS = re.compile(r"\b(vec[234]<bool>)\((?:false(?:, )?)*\)")
_ZERO = "var<private> zero: u32 = 0u;"


def zeros_made(text: str) -> str:
    """WGSL whose vectors of zeros are made of a variable. Chromium on SwiftShader computes wrongly
    with lanes of those that it knows: `vec2<i32>() <= min(vec2<i32>(), vec2<i32>(0, 9))` is half
    false there."""
    text = _FLAGS.sub(r"\1(zero != 0u)", _NUMBERS.sub(r"\1(\2(zero))", text))
    return text if _ZERO in text else text.replace("@compute", f"{_ZERO}\n\n@compute", 1)


class Tint:
    """WGSL in headless Chromium on its SwiftShader, with `zeros_made`.

    Where a private array that nothing has written is read at a known place, its zeros are known as
    well; such programs are refused.
    """

    ZEROS = re.compile(r"\bprivate_\w+\[(0u|c_\d+)\]")

    def __init__(self) -> None:
        for folder in ("spirv", "web"):
            sys.path.append(str(HERE / folder))
        from chromium_driver import ChromiumDriver

        self.driver = ChromiumDriver()
        self.name = f"Chromium: {self.driver.name}"
        size = self.driver.subgroup
        self.traits = replace(
            Traits(),
            types=ALL_TYPES - {"f64", "i64", "u64"},  # no browser has them
            subgroups=() if size is None else (size,),
            atomics64=False,
            scarce=frozenset({"f16"}),
            special=False,
            fences=(),
            fragments=False,  # as plain code they take minutes to compile
            buffers=self.driver.limits["maxStorageBuffersPerShaderStage"],
            numerics=GRAPHICS,
        )

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        from vulkan_driver import DriverError

        kernel, arguments = program.kernel, program.arguments()
        try:
            made = emit(kernel, "webgpu", Options(checks=program.variant % 4 == 3))
        except CompileError as error:
            raise refusal(error) from error
        if lacks := self.driver.lacks(made):
            raise RefusedError(", ".join(sorted(lacks)))
        text = made.blob.decode()
        if self.ZEROS.search(text):
            raise RefusedError("reads of private zeros at known places")
        made = replace(made, blob=zeros_made(text).encode())
        limits = self.driver.limits
        if kernel.workgroup_count > limits["maxComputeInvocationsPerWorkgroup"]:
            raise RefusedError("invocations of a workgroup")
        if made.shared_bytes > limits["maxComputeWorkgroupStorageSize"]:
            raise RefusedError("bytes of workgroup memory")
        try:
            words = self.driver.launch(kernel, made, arguments, program.grid)
        except DriverError as error:
            raise InvalidError(str(error)) from error
        sites = range(len(made.sites))
        return arguments, Faults.of([n for n in sites if words[n // 32] >> (n % 32) & 1])

    def close(self) -> None:
        self.driver.close()


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


def chromium() -> Tint:
    return Tint()
