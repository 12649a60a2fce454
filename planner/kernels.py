"""What a planner asks of the kernels at hand."""

from __future__ import annotations

from typing import Protocol


class Kernels(Protocol):
    """The kernels that there are for a device, such as those of a bundle."""

    def lacking(self, kernel: str, specialization: str) -> str | None:
        """What is missing for a specialization to run on the device; None where it does."""
        ...

    def parameters(self, kernel: str, specialization: str) -> tuple[str, ...]:
        """The element types of what a specialization that is there takes, in order."""
        ...
