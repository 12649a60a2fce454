"""Refusals: why a device cannot run a kernel, as frozen values that a caller can act on."""

from __future__ import annotations

from typing import NamedTuple


class Lack(NamedTuple):
    """What one variant needs and the device has not. `variant` counts within its target."""

    target: str
    variant: int
    missing: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.target} variant {self.variant} lacks {', '.join(self.missing)}"


class Refusal(NamedTuple):
    """No variant of a kernel fits a device.

    targets: what the device loads, best first. built: what the bundle has for this kernel and
    specialization. lacks: one entry per variant of a target that the device loads, or that is made
    for another architecture of the device's vendor. advice: what would make one fit, where known.
    """

    kernel: str
    specialization: str
    device: str
    targets: tuple[str, ...]
    built: tuple[str, ...]
    lacks: tuple[Lack, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        head = f"kernel {self.kernel} {self.specialization} is refused on {self.device}: "
        if self.lacks:
            return head + "; ".join(filter(None, [*map(str, self.lacks), self.advice]))
        loads = ", ".join(self.targets) or "nothing"
        built = ", ".join(self.built) or "nothing"
        return head + (
            f"the device loads {loads}, the bundle has {built}; build one of the device's targets"
        )
