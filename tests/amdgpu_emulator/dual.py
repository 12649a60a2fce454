"""Dual issue (VOPD): both halves read their sources before either writes."""

from __future__ import annotations

from dataclasses import replace

from .decode import Instruction, Operand
from .operands import vector_index
from .registry import Step, build_plain, instruction
from .state import ACCUMULATION, TEMPORARY, Arch, Machine

HALVES = frozenset(
    (
        *("fmac_f32", "fmaak_f32", "fmamk_f32", "mul_f32", "mul_dx9_zero_f32"),
        *("add_f32", "sub_f32", "subrev_f32", "max_f32", "min_f32", "max_num_f32", "min_num_f32"),
        *("mov_b32", "cndmask_b32", "add_nc_u32", "lshlrev_b32", "and_b32"),
        *("dot2acc_f32_f16", "dot2acc_f32_bf16"),
    )
)


def _half(i: Instruction) -> Instruction:
    name = i.mnemonic.removeprefix("v_dual_")
    if name not in HALVES:
        raise i.unknown(f"no dual-issue half {name}")
    return replace(i, mnemonic=f"v_{name}", suffix="e32")


def _moved(o: Operand, register: int) -> Operand:
    """The same operand, read from a register that no encoding reaches."""
    return replace(o, kind="a", index=register - ACCUMULATION)


@instruction("dual", generations=(11, 12))
def _dual(i: Instruction, arch: Arch) -> Step:
    first, second = (_half(half) for half in i.halves)
    written = vector_index(first.operands[0])
    hazard = [o.is_vector and vector_index(o) == written for o in second.operands[1:]]
    if any(hazard):
        sources = [
            _moved(o, TEMPORARY) if hit else o
            for o, hit in zip(second.operands[1:], hazard, strict=True)
        ]
        second = second.with_operands(second.operands[0], *sources)
    one, two = build_plain(first, arch), build_plain(second, arch)

    def step(m: Machine) -> None:
        one(m)
        two(m)

    def step_saving(m: Machine) -> None:
        m.write_all(TEMPORARY, m.read(written))
        one(m)
        two(m)

    return step_saving if any(hazard) else step
