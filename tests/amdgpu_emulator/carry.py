"""Vector integer arithmetic with a carry mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from .decode import Instruction
from .operands import U32, lane_mask, mask_target, source, target
from .registry import Step, instruction
from .state import Arch, Machine

Array = np.ndarray[Any, Any]

# mnemonic -> (operation, takes a carry); gfx9 has the names without "nc" and "ci"
NAMES: dict[str, tuple[str, bool]] = {}
for _op in ("add", "sub", "subrev"):
    NAMES[f"v_{_op}_co_u32"] = _op, False
    NAMES[f"v_{_op}_co_ci_u32"] = _op, True
NAMES |= {"v_addc_co_u32": ("add", True), "v_subb_co_u32": ("sub", True)}
NAMES |= {"v_subbrev_co_u32": ("subrev", True)}


@instruction(*NAMES)
def _with_carry(i: Instruction, arch: Arch) -> Step:
    """destination, carry out, x, y [, carry in]."""
    operation, takes = NAMES[i.mnemonic]
    first, second = (3, 2) if operation == "subrev" else (2, 3)
    x, y, write = source(i, first, U32), source(i, second, U32), target(i, U32)
    carry_out = mask_target(i, i.operands[1])
    carry_in = lane_mask(i, i.operands[4]) if takes else None

    def step(m: Machine) -> None:
        a, b = x(m), y(m)
        if operation == "add":
            out = a + b
            carry = out < a
            if carry_in is not None:
                c = carry_in(m)
                out = out + c
                carry = carry | (c & (out == 0))
        else:
            out = a - b
            carry = a < b
            if carry_in is not None:
                c = carry_in(m)
                carry = carry | (c & (out == 0))
                out = out - c
        write(m, out)
        carry_out(m, carry)

    return step
