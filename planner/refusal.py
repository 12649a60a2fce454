"""What a device lacks for a graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that cannot be planned. node: its results and the line that it comes from; dtypes: of
    its operands; target: the device and its code; missing: the capability or kernel."""

    node: str
    op: str
    dtypes: tuple[str, ...]
    target: str
    missing: str

    def __str__(self) -> str:
        given = ", ".join(self.dtypes)
        return f"{self.node}: {self.op} of {given} on {self.target}: missing {self.missing}"


class Missing(Exception):  # noqa: N818 - never leaves the planner: a rule does not apply
    """What a rule would need and there is not."""
