"""What NVIDIA devices and drivers load: architectures by compute capability, PTX by driver.

The `Rules` of `runtime.selection` for cubin and PTX: functions of manifests and capabilities.

Targets are `ptx-sm_80` (assembled by the driver, on this and every later device), `cubin-sm_80`
(same major number, minor at least this), and either with the suffix `a`: this device exactly.
Embedded modules take cubins of their own architecture only, and no other device takes those.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ....ir.targets import Capabilities
    from ....store.manifest import Manifest

# Compute capabilities that code is made for, and those with a suffixed form of their own.
ARCHITECTURES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
SUFFIXED = (90, 100, 103, 110, 120, 121)
EMBEDDED = (87, 88, 110)
# PTX version -> CUDA release whose driver is the first to take it, and that driver's branch.
ISA = {
    (6, 3): ((10, 0), 410),
    (6, 4): ((10, 1), 418),
    (6, 5): ((10, 2), 440),
    (7, 0): ((11, 0), 450),
    (7, 1): ((11, 1), 455),
    (7, 2): ((11, 2), 460),
    (7, 3): ((11, 3), 465),
    (7, 4): ((11, 4), 470),
    (7, 5): ((11, 5), 495),
    (7, 6): ((11, 6), 510),
    (7, 7): ((11, 7), 515),
    (7, 8): ((11, 8), 520),
    (8, 0): ((12, 0), 525),
    (8, 1): ((12, 1), 530),
    (8, 2): ((12, 2), 535),
    (8, 3): ((12, 3), 545),
    (8, 4): ((12, 4), 550),
    (8, 5): ((12, 5), 555),
    (8, 6): ((12, 7), 565),
    (8, 7): ((12, 8), 570),
    (8, 8): ((12, 9), 575),
    (9, 0): ((13, 0), 580),
}
_ARCH = re.compile(r"(cubin|ptx)-sm_(\d+)(a?)")


def targets(capability: tuple[int, int]) -> tuple[str, ...]:
    """What a device of this compute capability loads, best first."""
    major, minor = capability
    own = major * 10 + minor
    exact = own in SUFFIXED
    older = sorted((a for a in {*ARCHITECTURES, own} if a <= own), reverse=True)
    return (
        *([f"cubin-sm_{own}a"] if exact else []),
        *(f"cubin-sm_{a}" for a in older if _runs_cubin(own, a)),
        *([f"ptx-sm_{own}a"] if exact else []),
        *(f"ptx-sm_{a}" for a in older),
    )


def _runs_cubin(own: int, made_for: int) -> bool:
    if own in EMBEDDED or made_for in EMBEDDED:
        return own == made_for
    return own // 10 == made_for // 10 and own >= made_for


def newest_isa(driver: int) -> tuple[int, int]:
    """The newest PTX version that a driver (13000: of CUDA 13.0) takes, as far as is known."""
    release = driver // 1000, driver % 1000 // 10
    return max((isa for isa, (needs, _) in ISA.items() if needs <= release), default=(0, 0))


def lacking_architecture(target: str, capabilities: Capabilities) -> str | None:
    """Why a device of this vendor does not load a target; None where it is another vendor's."""
    parsed = _ARCH.fullmatch(target.partition(":")[0])
    has = str(capabilities.facts.get("compute_capability", ""))
    if not parsed or not has:
        return None
    backend, number, suffix = parsed[1], int(parsed[2]), parsed[3]
    needs = f"{number // 10}.{number % 10}"
    if suffix or (backend == "cubin" and number in EMBEDDED):
        needs += " exactly"
    elif backend == "cubin":
        needs += f" to {number // 10}.9"
        if any(a // 10 == number // 10 for a in EMBEDDED):
            needs += " of no embedded module"
    else:
        needs += " or later"
    return f"compute capability {needs} (the device has {has})"


def lacking_driver(manifest: Manifest, capabilities: Capabilities) -> str | None:
    """What a driver lacks to load an artifact: its PTX version, or its assembler's release."""
    driver = str(capabilities.facts.get("cuda", ""))
    if not driver:
        return None
    has = _version(driver)
    isa = manifest.facts.get("ptx_isa")
    if isa is not None and manifest.target.startswith("ptx-"):
        needs, branch = ISA.get(_version(str(isa)), ((99, 9), 0))
        if not branch:
            newest = max(ISA)
            return f"a driver for PTX {isa} (known up to PTX {newest[0]}.{newest[1]})"
        if needs > has:
            return (
                f"driver {branch} or later, of CUDA {needs[0]}.{needs[1]}, for PTX {isa} "
                f"(the device's driver is of CUDA {driver})"
            )
    assembler = re.search(r"(\d+)\.\d+", str(manifest.facts.get("assembler", "")))
    if assembler and manifest.target.startswith("cubin-") and int(assembler[1]) > has[0]:
        return (
            f"a driver of CUDA {assembler[1]}, whose assembler made the code "
            f"(the device's driver is of CUDA {driver})"
        )
    return None


def _version(text: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (99, 9)
