"""The CPU architectures that kernels are compiled for. Level names are fixed; the machine that
builds takes no part."""

from __future__ import annotations

from dataclasses import dataclass

from ..llvm.toolchain import Machine


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture level.

    lanes: invocations in a subgroup unless the kernel asks for a size. bit_masks: whether masks
    are bits in registers of their own (AVX-512); elsewhere they live in 32-bit lanes.
    blend_lanes: the 32-bit lanes of the x86 instruction that selects by sign bits; 0 without.
    """

    name: str
    machine: Machine
    lanes: int
    bit_masks: bool = False
    blend_lanes: int = 0
    native_f16: bool = True
    native_fma: bool = True


_X86 = "x86_64-unknown-linux-gnu"

ARCHS = {
    a.name: a
    for a in (
        Arch(
            "x86-64-v2",
            Machine(_X86, "x86-64-v2"),
            4,
            blend_lanes=4,
            native_f16=False,
            native_fma=False,
        ),
        Arch("x86-64-v3", Machine(_X86, "x86-64-v3"), 8, blend_lanes=8),
        Arch("x86-64-v4", Machine(_X86, "x86-64-v4"), 16, bit_masks=True),
        Arch("aarch64", Machine("aarch64-unknown-linux-gnu", "generic", "+neon"), 4),
    )
}
