"""The processors: their code objects, their instructions, and what one workgroup may take.

A target id is a processor's name with the settings that code was generated for, `gfx90a`,
`gfx90a:sramecc+:xnack-`; a setting that is left out fits both. Numbers and settings: LLVM's
"User Guide for AMDGPU Backend" (ELF header flags, kernel descriptor). LLVM ends its process on an
instruction that a processor lacks, so what differs stands here: AMD's instruction set manuals, and
LLVM's features of each processor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

SETTINGS = ("sramecc", "xnack")  # in the order of target ids
_PLACES = {"xnack": 8, "sramecc": 10}  # bits of e_flags: 1 either, 2 off, 3 on; 0 no such thing
_STATES = {"": 1, "-": 2, "+": 3}
_GENERIC = 24  # first bit of the version of a generic processor


# By generation: bits of the count in COMPUTE_TMPRING_SIZE, and bytes of one step.
_WAVE_SCRATCH = {9: (13, 1024), 10: (13, 1024), 11: (15, 256), 12: (18, 256)}


@dataclass(frozen=True, slots=True)
class Processor:
    """machine: its number in e_flags. level: the generation of its instructions, 9 to 12.
    settings: those of target ids that it has. generic: the version of a generic one, else 0.

    matrix: its matrix instructions, as `ir.passes.amd_products.PRODUCTS` names them. dot4: it sums
    products of four bytes, signed or unsigned ones, in one instruction. bf16: it rounds f32 to
    bf16.

    vgprs: vector registers of a SIMD in all, for each lane of a wave of `wavefront` lanes (its
    smallest size). granule: allocated together at that size. encoded: those of one step of the
    count in a kernel descriptor. unified: accumulation registers are among them. lds: bytes.
    """

    machine: int
    level: int
    settings: tuple[str, ...] = ()
    generic: int = 0
    matrix: str = ""
    dot4: bool = True
    bf16: bool = False
    wavefront: int = 32
    vgprs: int = 1024
    granule: int = 16
    encoded: int = 8
    unified: bool = False
    lds: int = 0x10000

    def simds(self, workgroup_processor: bool) -> int:
        """How many SIMDs the waves of one workgroup are spread over."""
        return 4 if self.wavefront == 64 or workgroup_processor else 2

    @property
    def code_object(self) -> int:
        """Version of its code objects: 6 for generic processors, which 5 does not know."""
        return 6 if self.generic else 5

    @property
    def wavefronts(self) -> tuple[int, ...]:
        """The sizes of waves, the usual one first."""
        return (64,) if self.wavefront == 64 else (32, 64)

    def private_bytes(self, wavefront: int) -> int:
        """Private memory of one invocation: a wave's is counted in a field of so many bits."""
        bits, unit = _WAVE_SCRATCH[self.level]
        return ((1 << bits) - 1) * unit // wavefront


_BOTH = ("sramecc", "xnack")
_gcn = partial(Processor, level=9, settings=_BOTH, wavefront=64, vgprs=256, granule=4, encoded=4)
_cdna = partial(_gcn, vgprs=512, granule=8, encoded=8, unified=True)
_rdna2 = partial(Processor, level=10)
_rdna3 = partial(Processor, level=11, matrix="wmma11")
# With a larger register file.
_rdna3_large = partial(_rdna3, vgprs=1536, granule=24)
_rdna4 = partial(Processor, level=12, matrix="wmma12", vgprs=1536, granule=24)

PROCESSORS = {
    "gfx906": _gcn(0x2F),
    "gfx908": _gcn(0x30, matrix="mfma908"),
    "gfx90a": _cdna(0x3F, matrix="mfma90a"),
    "gfx942": _cdna(0x4C, matrix="mfma942"),
    "gfx950": _cdna(0x4F, matrix="mfma950", bf16=True, lds=0x28000),
    "gfx1030": _rdna2(0x36),
    "gfx1100": _rdna3_large(0x41),
    "gfx1101": _rdna3_large(0x46),
    "gfx1102": _rdna3(0x47),
    "gfx1103": _rdna3(0x44),
    "gfx1150": _rdna3(0x43),
    "gfx1151": _rdna3_large(0x4A),
    "gfx1200": _rdna4(0x48),
    "gfx1201": _rdna4(0x4E),
    "gfx9-generic": _gcn(0x51, settings=("xnack",), generic=1, dot4=False),
    "gfx9-4-generic": _cdna(0x5F, matrix="mfma94", generic=1),
    "gfx10-3-generic": _rdna2(0x53, generic=1),
    "gfx11-generic": _rdna3(0x54, generic=1),
    "gfx12-generic": _rdna4(0x59, generic=1),
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
        if not processor.settings:
            raise ValueError(f"{name} has no settings, found {found[2]!r}; write {name} alone")
        wanted = ", then ".join(f"{s}+ or {s}-" for s in processor.settings)
        raise ValueError(f"{target}: the settings of {name} are {wanted}")
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
