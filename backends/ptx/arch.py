"""What each NVIDIA architecture is given: LLVM's names, the PTX version, what may be selected.

The PTX version is the lowest that the architecture and the emitted code allow: a driver that is
older than the version of a PTX refuses it, whatever is inside.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.passes.fragments_nv import ADA, AMPERE, TURING, Products
from ..llvm.toolchain import Machine

SUBGROUP = 32
STATIC_SHARED = 48 << 10  # the most that a module may declare; beyond, a launch asks for it


@dataclass(frozen=True, slots=True)
class Arch:
    """One architecture.

    isa: version of PTX, as its `.version` line says it. shared_bytes: the most workgroup memory
    of a workgroup. bf16: it rounds f32 to bf16. redux: it reduces 32-bit integers over a subgroup
    in one instruction. products: how it multiplies fragments; kernels with others are plain code.
    copies: it copies to workgroup memory while a kernel goes on. float8: it converts 8-bit floats.
    pairs: it rounds two f32 to a word of f16 or bf16.
    f16 arithmetic, fused multiply-add of every float type, 4x8-bit dot products, atomic f32 and f64
    sums and 64-bit atomics are there on all of them.
    """

    name: str
    isa: str
    shared_bytes: int
    bf16: bool = True
    redux: bool = True
    products: Products = ADA
    copies: bool = True
    float8: bool = True
    pairs: bool = True

    def machine(self, thorough: bool = True) -> Machine:
        """What LLVM generates code for. thorough: its code generator optimises (`effort`).

        Without a pass pipeline: the kernel's own passes have been through it, the code generator
        brings what is particular to PTX, and the assembler unrolls loops whose bounds are simple.
        LLVM's general passes cost twice the rest, fold the tests of loops into forms that are not
        unrolled any more, and made matrix products a quarter slower (measured).
        """
        return Machine(
            triple="nvptx64-nvidia-cuda",
            cpu=self.name,
            features="+ptx" + self.isa.replace(".", ""),
            speed=0,
            opt=2 if thorough else 0,
            reloc="default",
            codemodel="default",
        )


_ROWS = (
    Arch(
        "sm_75",
        "6.3",
        64 << 10,
        bf16=False,
        redux=False,
        products=TURING,
        copies=False,
        float8=False,
        pairs=False,
    ),
    Arch("sm_80", "7.0", 163 << 10, products=AMPERE, float8=False),
    Arch("sm_86", "7.1", 99 << 10, products=AMPERE, float8=False),
    Arch("sm_89", "7.8", 99 << 10),
    Arch("sm_90", "7.8", 227 << 10),
    Arch("sm_90a", "8.0", 227 << 10),
    Arch("sm_100", "8.6", 227 << 10),
    Arch("sm_120", "8.7", 99 << 10),
)

ARCHS: dict[str, Arch] = {row.name: row for row in _ROWS}
