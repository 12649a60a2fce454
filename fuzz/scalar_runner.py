"""The target `scalar`: an evaluator that shares no code with the interpreter, against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import scalar
from .program import Program
from .targets import Faults, Traits


class ScalarRunner:
    """Runs each program one invocation at a time, in plain Python, sharing nothing with numpy."""

    def __init__(self) -> None:
        self.name = "scalar: one invocation at a time"
        self.traits = replace(Traits(), near=False, fragments=False, invocations=16)

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        arguments = program.arguments()
        faults = scalar.run(program.kernel, arguments, program.grid)
        return arguments, Faults.of(faults)

    def close(self) -> None:
        pass
