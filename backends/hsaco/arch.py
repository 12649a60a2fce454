"""A processor with the settings and the waves that code is generated for: what LLVM is told about
it, and what the emitter may ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.machine import Machine
from .effort import Effort
from .processors import SETTINGS, Processor, parse_target


@dataclass(frozen=True, slots=True)
class Arch:
    """target: the target id. lanes: the size of the waves."""

    target: str
    processor: Processor
    lanes: int

    @property
    def cpu(self) -> str:
        return self.target.partition(":")[0]

    @property
    def row_lanes(self) -> bool:
        """Moves between the 16 lanes of a row by any exclusive or (DPP `row_xmask`), and between
        neighbouring rows (`v_permlanex16`)."""
        return self.processor.level >= 10

    @property
    def halves_apart(self) -> bool:
        """The LDS hardware moves words within 32 lanes only, although a wave has 64."""
        return self.processor.level in (10, 11) and self.lanes == 64

    @property
    def half_swap(self) -> bool:
        """The halves of a wave of 64 change places in one instruction (`v_permlane64`)."""
        return self.processor.level >= 11

    @property
    def dot4_mixed(self) -> bool:
        """Products of signed and unsigned bytes are summed in one instruction too."""
        return self.processor.level >= 11

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
    sizes = processor.wavefronts
    size = subgroup if subgroup not in (None, 1) else processor.wavefront
    if size not in sizes:
        there = " or ".join(map(str, sizes))
        raise ValueError(
            f"a subgroup has {there} invocations here, not {subgroup}; "
            f"give a variant with SUBGROUP: {sizes[0]}"
        )
    return Arch(target, processor, size)
