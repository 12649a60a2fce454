"""Targets that go wrong, for the tests of the fuzzer: `python:fuzz_doubles.broken` and so on."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from gristmill.backends.compile import CompileError, CompilerCrashError
from gristmill.fuzz.program import Program
from gristmill.fuzz.targets import DeviceRunner, Faults, InvalidError, RefusedError, Traits, refusal
from gristmill.ir import interp


class Double:
    """The oracle, but for what `fail` does."""

    def __init__(self) -> None:
        self.name, self.traits = type(self).__name__, Traits()

    def run(self, program: Program) -> tuple[list[Any], Faults]:
        arguments = program.arguments()
        report = interp.run(program.kernel, arguments, program.grid)
        self.fail(program)
        return arguments, Faults.of(report.faults)

    def fail(self, program: Program) -> None: ...

    def close(self) -> None: ...


class crashing(Double):  # noqa: N801 (named as a function, which a target is)
    def fail(self, program: Program) -> None:
        if program.variant == 1:
            os.abort()


class leaving(crashing):  # noqa: N801
    """It opens once: the file that the environment names says whether it did."""

    def __init__(self) -> None:
        super().__init__()
        Path(os.environ["FUZZ_DOUBLE_OPENED"]).touch(exist_ok=False)


class littering(crashing):  # noqa: N801
    """It leaves a folder behind when it crashes."""

    def __init__(self) -> None:
        super().__init__()
        Path(tempfile.mkdtemp(prefix="left-")).joinpath("file").touch()


class losing(Double):  # noqa: N801
    """Its compiler is lost over a program."""

    def fail(self, program: Program) -> None:
        if program.variant < 2:
            kind = CompilerCrashError if program.variant else CompileError
            raise refusal(kind("k", "somewhere", "signal 6" if program.variant else "no f64"))


class hanging(Double):  # noqa: N801
    def fail(self, program: Program) -> None:
        if program.variant == 1:
            time.sleep(600)


class complaining(Double):  # noqa: N801
    def fail(self, program: Program) -> None:
        if program.variant == 0:
            raise RefusedError("feature f64")
        if program.variant == 1:
            raise InvalidError("no such instruction")
        if program.variant == 2:
            raise KeyError("a bug")


def broken() -> DeviceRunner:
    """The cpu, with an emitter that writes `or` for `xor`."""
    from gristmill.backends.llvm import arithmetic

    arithmetic._INT["xor"] = "or"
    return DeviceRunner("cpu")
