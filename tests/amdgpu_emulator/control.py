"""Branches, barriers, waits, the end of a program, MODE."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from . import scheduler
from .decode import Instruction
from .operands import U32, U64, raw_scalar, scalar_source, scalar_target
from .registry import Step, instruction
from .state import EXEC, VCC, Arch, Machine

Array = np.ndarray[Any, Any]

# Order of memory and caches: everything is coherent and in order here. s_wait_idle, s_waitcnt and
# their kin need no checks since loads write at once.
NO_EFFECT = (
    "s_nop", "s_waitcnt", "s_waitcnt_depctr", "s_waitcnt_vscnt", "s_waitcnt_lgkmcnt",
    "s_waitcnt_vmcnt", "s_waitcnt_expcnt", "s_wait_alu", "s_wait_idle", "s_wait_loadcnt",
    "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt", "s_wait_samplecnt", "s_wait_bvhcnt",
    "s_wait_expcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt", "s_wait_event",
    "s_delay_alu", "s_clause", "s_setprio", "s_inst_prefetch", "s_set_inst_prefetch_distance",
    "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_gl1_inv", "v_nop", "s_prefetch_inst",
    "s_prefetch_inst_pc_rel", "s_prefetch_data", "s_prefetch_data_pc_rel",
)  # fmt: skip
CACHES = (
    "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_wbl2",
    "buffer_invl2", "buffer_inv", "global_inv", "global_wb", "global_wbinv",
)  # fmt: skip
CACHE_MODIFIERS = ("scope", "th", "sc0", "sc1", "nt", "glc", "slc", "dlc")


@instruction(*NO_EFFECT)
def _no_effect(i: Instruction, arch: Arch) -> Step:
    return lambda m: None


@instruction(*CACHES, modifiers=CACHE_MODIFIERS)
def _cache(i: Instruction, arch: Arch) -> Step:
    return lambda m: None


@instruction("s_sendmsg")
def _message(i: Instruction, arch: Arch) -> Step:
    if "DEALLOC_VGPRS" not in i.text:
        raise i.unknown("only the message that gives registers back is known")
    return lambda m: None


@instruction("s_sleep", "s_sleep_var")
def _sleep(i: Instruction, arch: Arch) -> Step:
    """Who sleeps waits for another wave: let the others run."""

    def step(m: Machine) -> None:
        m.yielded = True

    return step


@instruction("s_endpgm", "s_endpgm_saved")
def _end(i: Instruction, arch: Arch) -> Step:
    return scheduler.end


@instruction("s_trap", "s_sethalt")
def _trap(i: Instruction, arch: Arch) -> Step:
    raise i.unknown("a trap: no handler is installed")


# Branches


@instruction("s_branch")
def _branch(i: Instruction, arch: Arch) -> Step:
    target = i.branch_target
    return lambda m: target


def _any_lane(m: Machine, register: int) -> Array:
    low = m.scalar(register)
    return (low | m.scalar(register + 1)) != 0 if m.lanes == 64 else low != 0


CONDITIONS: dict[str, Callable[[Machine], Array]] = {
    "scc0": lambda m: ~m.get_scc(),
    "scc1": lambda m: m.get_scc(),
    "vccz": lambda m: ~_any_lane(m, VCC),
    "vccnz": lambda m: _any_lane(m, VCC),
    "execz": lambda m: ~_any_lane(m, EXEC),
    "execnz": lambda m: _any_lane(m, EXEC),
}


@instruction(*(f"s_cbranch_{name}" for name in CONDITIONS))
def _conditional(i: Instruction, arch: Arch) -> Step:
    target, following = i.branch_target, i.next
    condition = CONDITIONS[i.mnemonic.removeprefix("s_cbranch_")]

    def step(m: Machine) -> int | Array | None:
        taken = condition(m)
        if taken.all():
            return target
        return np.where(taken, target, following) if taken.any() else None

    return step


@instruction("s_getpc_b64")
def _get_pc(i: Instruction, arch: Arch) -> Step:
    write = scalar_target(i, U64)
    return lambda m: write(m, np.full(m.count, m.code_base + i.next, np.uint64))


@instruction("s_setpc_b64", "s_swappc_b64")
def _set_pc(i: Instruction, arch: Arch) -> Step:
    read = scalar_source(i, len(i.operands) - 1, U64)
    save = scalar_target(i, U64) if i.mnemonic == "s_swappc_b64" else None

    def step(m: Machine) -> Array:
        target = (read(m) - np.uint64(m.code_base)).astype(np.int64)
        if save is not None:
            save(m, np.full(m.count, m.code_base + i.next, np.uint64))
        return target

    return step


@instruction("s_call_b64")
def _call(i: Instruction, arch: Arch) -> Step:
    target, save = i.branch_target, scalar_target(i, U64)

    def step(m: Machine) -> int:
        save(m, np.full(m.count, m.code_base + i.next, np.uint64))
        return target

    return step


# Barriers


@instruction("s_barrier")
def _barrier(i: Instruction, arch: Arch) -> Step:
    def step(m: Machine) -> int:
        m.signals[m.g] += 1
        return scheduler.wait_at_barrier(m, i.next)

    return step


def _workgroup_barrier(i: Instruction) -> None:
    if i.operands[0].kind != "int" or i.operands[0].value != -1:
        raise i.unknown("only the barrier of the workgroup, -1, is known")


@instruction("s_barrier_signal", generations=(12,))
def _signal(i: Instruction, arch: Arch) -> Step:
    _workgroup_barrier(i)

    def step(m: Machine) -> None:
        m.signals[m.g] += 1

    return step


@instruction("s_barrier_wait", generations=(12,))
def _wait(i: Instruction, arch: Arch) -> Step:
    if i.operands[0].text not in ("-1", "0xffff", "65535"):
        raise i.unknown("only the barrier of the workgroup, -1, is known")
    return lambda m: scheduler.wait_at_barrier(m, i.next)


# MODE


def _field(i: Instruction, text: str) -> tuple[int, int]:
    """(offset, width) of hwreg(HW_REG_MODE, offset, width)."""
    found = re.fullmatch(r"hwreg\(HW_REG_(?:WAVE_)?MODE(?:, (\d+), (\d+))?\)", text)
    if found is None:
        raise i.unknown(f"register {text}")
    return int(found[1] or 0), int(found[2] or 32)


@instruction("s_setreg_b32", "s_setreg_imm32_b32")
def _set_register(i: Instruction, arch: Arch) -> Step:
    offset, width = _field(i, i.operands[0].text)
    field = np.uint32((1 << width) - 1)
    read = raw_scalar(i, i.operands[1], U32)

    def step(m: Machine) -> None:
        old = m.mode_bits[m.g] & ~(field << np.uint32(offset))
        m.set_mode_bits(old | (read(m) & field) << np.uint32(offset))

    return step


@instruction("s_getreg_b32")
def _get_register(i: Instruction, arch: Arch) -> Step:
    offset, width = _field(i, i.operands[1].text)
    field, write = np.uint32((1 << width) - 1), scalar_target(i, U32)
    return lambda m: write(m, m.mode_bits[m.g] >> np.uint32(offset) & field)


@instruction("s_round_mode", "s_denorm_mode")
def _mode_field(i: Instruction, arch: Arch) -> Step:
    offset = 0 if i.mnemonic == "s_round_mode" else 4
    value = np.uint32((int(i.operands[0].value) & 15) << offset)
    keep = ~np.uint32(15 << offset)
    return lambda m: m.set_mode_bits(m.mode_bits[m.g] & keep | value)
