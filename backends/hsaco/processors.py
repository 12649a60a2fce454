"""What the code objects of each processor look like, and how much of it one workgroup may take.

A target id is a processor's name with the settings that code was generated for, `gfx90a`,
`gfx90a:sramecc+:xnack-`; a setting that is left out fits both. Numbers and settings: LLVM's
"User Guide for AMDGPU Backend" (ELF header flags, kernel descriptor).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SETTINGS = ("sramecc", "xnack")  # in the order of target ids
_PLACES = {"xnack": 8, "sramecc": 10}  # bits of e_flags: 1 either, 2 off, 3 on; 0 no such thing
_STATES = {"": 1, "-": 2, "+": 3}
_GENERIC = 24  # first bit of the version of a generic processor


@dataclass(frozen=True, slots=True)
class Processor:
    """machine: its number in e_flags. settings: those of target ids that it has. generic: the
    version of a generic one, else 0.

    vgprs: vector registers of a SIMD in all, for each lane of a wave of `wavefront` lanes (its
    smallest size). granule: allocated together at that size. encoded: those of one step of the
    count in a kernel descriptor. unified: accumulation registers are among them.
    """

    machine: int
    settings: tuple[str, ...] = ()
    generic: int = 0
    wavefront: int = 32
    vgprs: int = 1024
    granule: int = 16
    encoded: int = 8
    unified: bool = False
    lds: int = 0x10000

    def simds(self, workgroup_processor: bool) -> int:
        """How many SIMDs the waves of one workgroup are spread over."""
        return 4 if self.wavefront == 64 or workgroup_processor else 2


_BOTH = ("sramecc", "xnack")


def _gcn(machine: int, settings: tuple[str, ...] = _BOTH, generic: int = 0) -> Processor:
    return Processor(machine, settings, generic, 64, 256, 4, 4)


def _cdna(machine: int, generic: int = 0, lds: int = 0x10000) -> Processor:
    return Processor(machine, _BOTH, generic, 64, 512, 8, 8, unified=True, lds=lds)


def _large(machine: int, generic: int = 0) -> Processor:
    """With the larger register file of some of gfx11 and all of gfx12."""
    return Processor(machine, generic=generic, vgprs=1536, granule=24)


PROCESSORS = {
    "gfx906": _gcn(0x2F),
    "gfx908": _gcn(0x30),
    "gfx90a": _cdna(0x3F),
    "gfx942": _cdna(0x4C),
    "gfx950": _cdna(0x4F, lds=0x28000),
    "gfx1030": Processor(0x36),
    "gfx1100": _large(0x41),
    "gfx1101": _large(0x46),
    "gfx1102": Processor(0x47),
    "gfx1103": Processor(0x44),
    "gfx1150": Processor(0x43),
    "gfx1151": _large(0x4A),
    "gfx1200": _large(0x48),
    "gfx1201": _large(0x4E),
    "gfx9-generic": _gcn(0x51, ("xnack",), generic=1),
    "gfx9-4-generic": _cdna(0x5F, generic=1),
    "gfx10-3-generic": Processor(0x53, generic=1),
    "gfx11-generic": Processor(0x54, generic=1),
    "gfx12-generic": _large(0x59, generic=1),
}
_TARGET = re.compile(r"([a-z0-9-]+?)((?::[a-z]+[+-])*)")


def parse_target(target: str) -> tuple[Processor, dict[str, str]]:
    """The processor of a target id and its settings, `{"xnack": "-"}`.

    ValueError for a processor that is not known, or a setting that it does not have.
    """
    found = _TARGET.fullmatch(target)
    name = found[1] if found else target
    if found is None or name not in PROCESSORS:
        raise ValueError(f"no processor {name!r}; known: {', '.join(PROCESSORS)}")
    processor = PROCESSORS[name]
    words = found[2].split(":")[1:]
    chosen = {word[:-1]: word[-1] for word in words}
    if list(chosen) != [s for s in processor.settings if s in chosen] or len(chosen) < len(words):
        wanted = ", ".join(f"{s}+ or {s}-" for s in processor.settings) or "none"
        raise ValueError(f"{target}: the settings of {name} are, in this order, {wanted}")
    return processor, chosen


def e_flags(target: str) -> int:
    """The flags in the ELF header of a code object for this target id. ValueError as above."""
    processor, chosen = parse_target(target)
    flags = processor.machine | processor.generic << _GENERIC
    for setting in processor.settings:
        flags |= _STATES[chosen.get(setting, "")] << _PLACES[setting]
    return flags


def target_of(flags: int) -> str:
    """The target id that the flags in an ELF header say. ValueError where they say none."""
    for name, processor in PROCESSORS.items():
        if processor.machine != flags & 0xFF:
            continue
        target = name
        for setting in processor.settings:
            state = flags >> _PLACES[setting] & 3
            target += "".join(f":{setting}{s}" for s, n in _STATES.items() if s and n == state)
        if e_flags(target) == flags:
            return target
    raise ValueError(f"flags {flags:#x} are of no processor that is known")
