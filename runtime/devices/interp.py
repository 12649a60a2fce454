"""The oracle as a device: artifacts are kernel IR texts, run by the interpreter.

A mistake of a kernel (access out of bounds, race, unwritten read, divergent barrier) raises
`KernelProblem` at the next wait; `reports` holds what the interpreter said about every launch.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.targets import FEATURES, Capabilities
from ..bundle import Artifact
from ..errors import ArtifactCorrupt, GristmillError
from ..launch import Command
from .host_device import HostDevice, host_limits

if TYPE_CHECKING:
    from ...ir.core import Kernel
    from ...ir.interp import InterpOptions, Report

REPORTS = 1000  # how many launches are remembered


class KernelProblem(GristmillError):  # noqa: N818 (as KernelFault)
    """The interpreter found mistakes in a kernel; `report` lists them."""

    def __init__(self, kernel: str, report: Report) -> None:
        text = "; ".join(map(str, report.problems))
        super().__init__(
            f"kernel {kernel}: {text}", do="mend the kernel: other targets may not tell"
        )
        self.kernel, self.report = kernel, report


def _capabilities(spec: str) -> Capabilities:
    return Capabilities(
        device=spec,
        name="interpreter of kernel IR",
        driver=f"numpy {np.__version__}",
        targets=("interp-kir",),
        limits=host_limits(1 << 40),
        features=frozenset(FEATURES),
        subgroup_sizes=(1, 2, 4, 8, 16, 32, 64, 128),
    )


class InterpStage:
    """One launch on the interpreter."""

    def __init__(self, device: InterpDevice, command: Command) -> None:
        self._device, self._command = device, command

    def begin(self) -> int:
        return 1

    def rewrite(self, command: Command) -> None:
        self._command = command

    def work(self, worker: int) -> None:
        self._device.interpret(self._command)


class InterpDevice(HostDevice):
    """See the module. options: an `ir.interp.InterpOptions`."""

    def __init__(self, spec: str, timeout: float, options: InterpOptions | None) -> None:
        super().__init__(spec, _capabilities(spec), timeout, workers=1)
        self.options = options
        self.reports: deque[tuple[str, Report]] = deque(maxlen=REPORTS)
        self._problem: GristmillError | None = None

    def _load(self, artifact: Artifact, blob: bytes) -> Kernel:
        from ...ir.parse import ParseError, parse_kernel

        try:
            return parse_kernel(blob.decode(), str(artifact.file))
        except (ParseError, UnicodeDecodeError) as error:
            raise ArtifactCorrupt(f"not kernel IR: {error}", where=str(artifact.file)) from error

    def _stage(self, command: Command) -> InterpStage:
        return InterpStage(self, command)

    def interpret(self, command: Command) -> None:
        """Run one launch; called by the executor."""
        from ...ir.interp import Bits, InterpBudgetExceeded, InterpOptions, run

        memory, scalars = iter(command.bindings), iter(command.scalars)
        args: list[Any] = []
        for param in command.kernel.params:
            if param.is_memory:
                b = next(memory)
                raw = b.allocation.handle.bytes[b.offset : b.offset + b.nbytes]
                args.append(raw.view(param.dtype.storage))
            else:
                args.append(Bits(next(scalars)))
        options = self.options or InterpOptions()
        try:
            report = run(
                command.kernel.code, args, command.grid, counts=command.counts, options=options
            )
        except InterpBudgetExceeded as error:
            self._problem = self._problem or GristmillError(str(error), where=self.name)
            return
        self.reports.append((command.kernel.name, report))
        bitmap = report.fault_bitmap(command.fault_base)
        self._bitmap[: len(bitmap)] |= bitmap
        if report.problems and self._problem is None:
            self._problem = KernelProblem(command.kernel.name, report)

    def _wait(self, timeout: float) -> None:
        super()._wait(timeout)
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem


def open_device(
    spec: str, selector: str, timeout: float, options: InterpOptions | None = None
) -> InterpDevice:
    """Always there where gristmill is installed. options: an `ir.interp.InterpOptions`."""
    return InterpDevice(spec, timeout, options)


def find_devices() -> list[tuple[str, str]]:
    """One device."""
    return [("interp", "the oracle: numpy interpreter of kernel IR")]
