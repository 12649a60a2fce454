"""What assemblers within drivers get wrong, written otherwise in the PTX that LLVM gives.

LLVM recognises each of these patterns in whatever form its IR has them, so that they are replaced
in its text.
"""

from __future__ import annotations

import re

# The assembler of CUDA 13.0's driver takes it that the result is not below 0: for -32768 it is,
# and a comparison with 0 goes wrong. Of 32 bits it takes nothing for granted.
_ABS16 = re.compile(r"^\tabs\.s16 \t(%\w+), (%\w+);$", re.MULTILINE)
_ABS32 = (
    "\t{\n\t.reg .b32 \t%wide;\n\tcvt.s32.s16 \t%wide, \\2;\n\tabs.s32 \t%wide, %wide;\n"
    "\tcvt.u16.u32 \t\\1, %wide;\n\t}"
)


def avoided(text: str) -> str:
    """PTX that drivers assemble rightly, of PTX as LLVM writes it."""
    return _ABS16.sub(_ABS32, text) if "abs.s16" in text else text
