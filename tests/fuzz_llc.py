"""Vulkan drivers by way of LLVM as targets of the fuzzer: `--device python:fuzz_llc.lavapipe`.

VK_DRIVER_FILES has to name the driver, as for any other.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

from gristmill import runtime
from gristmill.backends.compile import Options
from gristmill.fuzz.program import Program
from gristmill.fuzz.targets import DeviceRunner, Faults, build


class LlcRunner(DeviceRunner):
    """A Vulkan device whose modules LLVM makes. What LLVM does not take is a refusal."""

    def __init__(self, spec: str) -> None:
        super().__init__(spec)
        # Held as 16 bits here, which chains of them cost Mesa (22.3) still more time than it takes
        # for those of the direct emitter.
        self.traits = replace(self.traits, scarce=self.traits.scarce | {"bf16"})

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        targets = [name for name in self.device.capabilities.targets if ":" not in name]
        checks = program.variant % 4 == 3
        folder = self.folder / str(next(self.numbers))
        folder.mkdir()
        try:
            target = targets[program.variant % len(targets)]
            build(program, target, Options(checks=checks, spirv_codegen="llc"), folder)
            return self.launch(program, runtime.open_bundle(folder))
        finally:
            shutil.rmtree(folder)


def lavapipe() -> LlcRunner:
    return LlcRunner("vulkan:llvmpipe")


def swiftshader() -> LlcRunner:
    return LlcRunner("vulkan:SwiftShader")
