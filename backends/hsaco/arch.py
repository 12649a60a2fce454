"""What LLVM is told about each processor, and what the emitter may ask of it.

LLVM ends its process on an instruction that a processor lacks, so what differs stands here. What a
code object looks like and what a workgroup may take is in `processors`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.toolchain import Machine
from .effort import Effort
from .processors import PROCESSORS, SETTINGS, Processor, parse_target

_GFX9 = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx9-generic", "gfx9-4-generic")
_GFX10 = ("gfx1030", "gfx10-3-generic")
_LEVELS = {**dict.fromkeys(_GFX9, 9), **dict.fromkeys(_GFX10, 10)}
# By level: bits of the count in COMPUTE_TMPRING_SIZE, and bytes of one step.
_WAVE_SCRATCH = {9: (13, 1024), 10: (13, 1024), 11: (15, 256), 12: (18, 256)}


@dataclass(frozen=True, slots=True)
class Arch:
    """A processor with the settings that code is generated for, and the size of its waves.

    target: the target id. level: 9, 10, 11 or 12, the generation of its instructions.
    """

    target: str
    processor: Processor
    level: int
    lanes: int

    @property
    def cpu(self) -> str:
        return self.target.partition(":")[0]

    @property
    def code_object(self) -> int:
        """Version of its code objects: 6 for generic processors, which 5 does not know."""
        return 6 if self.processor.generic else 5

    @property
    def private_bytes(self) -> int:
        """Private memory of one invocation: a wave's is counted in a field of so many bits."""
        bits, unit = _WAVE_SCRATCH[self.level]
        return ((1 << bits) - 1) * unit // self.lanes

    @property
    def row_lanes(self) -> bool:
        """Moves between the 16 lanes of a row by any exclusive or (DPP `row_xmask`), and between
        neighbouring rows (`v_permlanex16`)."""
        return self.level >= 10

    @property
    def halves_apart(self) -> bool:
        """The LDS hardware moves words within 32 lanes only, although a wave has 64."""
        return self.level in (10, 11) and self.lanes == 64

    @property
    def half_swap(self) -> bool:
        """The halves of a wave of 64 change places in one instruction (`v_permlane64`)."""
        return self.level >= 11

    @property
    def dot4(self) -> bool:
        """Products of four bytes are summed in one instruction, signed or unsigned ones."""
        return self.cpu != "gfx9-generic"

    @property
    def dot4_mixed(self) -> bool:
        """So are products of signed and unsigned bytes."""
        return self.level >= 11

    @property
    def bf16(self) -> bool:
        """It rounds f32 to bf16."""
        return self.cpu == "gfx950"

    def machine(self, effort: Effort) -> Machine:
        """What LLVM generates code for, with so much effort."""
        return Machine(
            triple="amdgcn-amd-amdhsa",
            cpu=self.cpu,
            features=",".join(self._features()),
            speed=0,
            passes=effort.passes,
            opt=effort.opt,
        )

    def _features(self) -> list[str]:
        _, chosen = parse_target(self.target)
        found = [f"{chosen[s]}{s}" for s in SETTINGS if s in chosen]
        if self.lanes > self.processor.wavefront:
            found.append("+wavefrontsize64")
        return found


def find(target: str, subgroup: int | None) -> Arch:
    """The processor of a target id for subgroups of a size, None or 1: of any.

    ValueError names the known processors, or the sizes that there are.
    """
    processor, _ = parse_target(target)
    sizes = sizes_of(processor)
    size = subgroup if subgroup not in (None, 1) else processor.wavefront
    if size not in sizes:
        there = " or ".join(map(str, sizes))
        raise ValueError(
            f"a subgroup has {there} invocations here, not {subgroup}; "
            f"give a variant with SUBGROUP: {sizes[0]}"
        )
    return Arch(target, processor, level(target.partition(":")[0]), size)


def sizes_of(processor: Processor) -> tuple[int, ...]:
    """The sizes of subgroups, the usual one first."""
    return (64,) if processor.wavefront == 64 else (32, 64)


def level(cpu: str) -> int:
    """The generation of a processor's instructions."""
    return _LEVELS.get(cpu, 12 if cpu.startswith("gfx12") else 11)


ARCHS = tuple(PROCESSORS)
