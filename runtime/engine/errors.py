"""What goes wrong with plans, beside what goes wrong with kernels."""

# ruff: noqa: N818 (as in `runtime.errors`)

from __future__ import annotations

from ..errors import GristmillError, OutOfMemory


class PlanMismatch(GristmillError):
    """A plan for another device, or one whose kernels the bundle lacks."""


class WeightsInvalid(GristmillError):
    """Weights that are not those of the plan: missing, or of another type or shape."""


class NeedsReset(GristmillError):
    """A step failed: there are no results, and with states, `Model.reset` comes first."""


class PlanTooLarge(OutOfMemory):
    """A plan that does not fit into the device's memory; nothing was allocated."""

    def __init__(self, requested: int, available: int, where: str, roles: dict[str, int]) -> None:
        super().__init__(requested, available, where)
        self.roles = roles
        self.args = (f"{self.args[0]}; the plan holds {shown(roles)}",)


def shown(roles: dict[str, int]) -> str:
    """Bytes by role, in words."""
    return ", ".join(f"{size} bytes of {role}" for role, size in roles.items() if size)
