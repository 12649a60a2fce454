"""What AMD devices load: code objects by target id.

Targets are `hsaco-` and a target id: a processor with the settings that its code was generated for,
`gfx942`, `gfx942:sramecc+:xnack-`; a setting that is left out fits both. Generic processors stand
for a family. Families: LLVM's "User Guide for AMDGPU Backend", "Generic processors".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....ir.targets import Capabilities
    from ....store.manifest import Manifest

PREFIX = "hsaco-"
FAMILIES = {
    "gfx9-generic": "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c",
    "gfx9-4-generic": "gfx942 gfx950",
    "gfx10-1-generic": "gfx1010 gfx1011 gfx1012 gfx1013",
    "gfx10-3-generic": "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036",
    "gfx11-generic": "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153",
    "gfx12-generic": "gfx1200 gfx1201",
}


def generic_of(processor: str) -> str | None:
    """The generic processor whose code a processor runs."""
    found = (name for name, members in FAMILIES.items() if processor in members.split())
    return next(found, None)


def targets(isas: Sequence[str]) -> tuple[str, ...]:
    """What an agent loads, best first. isas: the target ids that it tells, its own one first.

    Its own with all its settings, with some, with none, then those of its family in the same way.
    """
    names = [*isas, generic_of(isas[0].partition(":")[0])]
    found = [each for name in names if name for each in _with_fewer_settings(name)]
    return tuple(dict.fromkeys(f"{PREFIX}{name}" for name in found))


def _with_fewer_settings(isa: str) -> list[str]:
    """A target id, and those with some of its settings and with none: a device that runs code made
    for settings runs code that fits either."""
    processor, *settings = isa.split(":")
    return [
        ":".join((processor, *chosen))
        for count in range(len(settings), -1, -1)
        for chosen in combinations(settings, count)
    ]


def lacking_architecture(target: str, capabilities: Capabilities) -> str | None:
    """Why a device of this vendor does not load a target; None where it is another vendor's."""
    isa = str(capabilities.facts.get("isa", ""))
    if not isa or not target.startswith(PREFIX):
        return None
    return f"the processor {target.removeprefix(PREFIX)} (the device is {isa})"


def lacking_driver(manifest: Manifest, capabilities: Capabilities) -> str | None:
    """None: which code objects a release of ROCm takes it says itself when they are loaded."""
    return None
