"""Which registers an instruction reads and writes, from its text alone.

Registers are numbers: 0-127 the scalar file, then vector and accumulation registers as `Machine.V`
counts them. Registers that are chosen at run time (M0, an index) count as the one that is named.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from .decode import EXEC, M0, NULL, VCC, Instruction, Operand, instruction
from .operands import vector_index
from .state import ACCUMULATION

VECTORS = 128  # the number of v0
_MEMORY = ("global_", "flat_", "scratch_", "buffer_", "ds_")
_NO_RESULT = (
    "s_cmp_", "s_bitcmp", "s_branch", "s_cbranch_", "s_nop", "s_wait", "s_barrier", "s_endpgm",
    "s_setreg", "s_sleep", "s_sendmsg", "s_set_", "s_clause", "s_delay_alu", "s_inst_prefetch",
    "s_icache_inv", "s_dcache", "s_gl1_inv", "s_prefetch", "s_setpc", "s_round_mode",
    "s_denorm_mode", "s_setprio", "s_trap", "s_sethalt", "v_nop",
)  # fmt: skip
_TWO = re.compile(
    r"v_(add|sub|subrev|addc|subb|subbrev)_co_|v_div_scale_|v_mad_(co_)?[ui]64_[ui]32"
    r"|v_swap|v_permlane(16|32)_swap"
)
# The destination is a source as well: sums, and what leaves a part of it.
_ACCUMULATES = re.compile(
    r"v_(dual_)?(pk_)?(fmac|mac|dot\dc|dot2acc)|v_writelane|v_fma_mix(lo|hi)|v_mad_mix(lo|hi)"
    r"|s_cmov|s_bitset|s_movk|s_addk|s_mulk"
)


class Uses(NamedTuple):
    """Sets of registers."""

    reads: frozenset[int]
    writes: frozenset[int]

    @property
    def all(self) -> frozenset[int]:
        return self.reads | self.writes


def name(register: int) -> str:
    """As the assembler has it."""
    if register < VECTORS:
        known = {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0", EXEC: "exec_lo", EXEC + 1: "exec_hi"}
        return known.get(register, f"s{register}")
    n = register - VECTORS
    return f"v{n}" if n < ACCUMULATION else f"a{n - ACCUMULATION}"


def registers(o: Operand) -> range:
    """The registers of an operand."""
    if o.is_vector:
        first = VECTORS + vector_index(o)
        return range(first, first + o.count)
    if o.kind == "s" and o.index != NULL:
        return range(o.index, o.index + o.count)
    return range(0)


def is_vector_alu(i: Instruction) -> bool:
    return i.mnemonic.startswith("v_") or bool(i.halves)


def is_vector_memory(i: Instruction) -> bool:
    """A load, store or atomic of lanes, other than of LDS."""
    return i.mnemonic.startswith(_MEMORY[:-1]) and not is_cache(i)


def is_lds(i: Instruction) -> bool:
    return i.mnemonic.startswith("ds_") and i.mnemonic != "ds_nop"


def is_cache(i: Instruction) -> bool:
    """It invalidates or writes back caches, and moves no data."""
    return i.mnemonic.startswith(
        ("buffer_gl", "buffer_wb", "buffer_inv", "global_inv", "global_wb")
    )


def is_atomic(i: Instruction) -> bool:
    return "_atomic_" in i.mnemonic


def returns(i: Instruction) -> bool:
    """Whether an instruction on memory writes registers."""
    if is_cache(i):
        return False
    if is_atomic(i):
        flags = i.modifiers
        return "glc" in flags or "sc0" in flags or "RETURN" in str(flags.get("th", ""))
    if is_lds(i):
        plain = i.mnemonic.startswith(("ds_load", "ds_read", "ds_bpermute", "ds_permute"))
        plain = plain or i.mnemonic.startswith(("ds_swizzle", "ds_append", "ds_consume"))
        return plain or "_rtn" in i.mnemonic
    return "_load_" in i.mnemonic


def _results(i: Instruction, generation: int) -> int:
    """How many of the first operands are written."""
    m = i.mnemonic
    if m.startswith(_NO_RESULT):
        return 0
    if m.startswith(_MEMORY):
        return int(returns(i))
    if m.startswith("v_cmpx_"):
        return int(generation == 9)
    return 2 if _TWO.match(m) else 1


def _implicit(i: Instruction) -> Uses:
    """Registers that the text leaves out."""
    m, reads, writes = i.mnemonic, [], []
    if m.startswith("v_cmpx_"):
        writes += [EXEC, EXEC + 1]
    if m.startswith(("v_div_fmas", "s_cbranch_vcc")):
        reads += [VCC, VCC + 1]
    if m.startswith("s_cbranch_exec"):
        reads += [EXEC, EXEC + 1]
    if "movrel" in m or m == "s_sendmsg":
        reads.append(M0)
    if m.startswith("s_set_gpr_idx_on"):
        writes.append(M0)
    if "saveexec" in m or "wrexec" in m:
        writes += [EXEC, EXEC + 1]
    return Uses(frozenset(reads), frozenset(writes))


@functools.lru_cache(maxsize=1 << 16)
def _by_text(text: str, generation: int) -> Uses:
    return _uses(instruction(0, 4, text), generation)


def _uses(i: Instruction, generation: int) -> Uses:
    if i.halves:
        parts = [_uses(half, generation) for half in i.halves]
        return Uses(
            frozenset().union(*(p.reads for p in parts)),
            frozenset().union(*(p.writes for p in parts)),
        )
    results = _results(i, generation)
    reads, writes = (set(part) for part in _implicit(i))
    for at, o in enumerate(i.operands):
        (writes if at < results else reads).update(registers(o))
    halves = i.suffix == "sdwa" and not i.mnemonic.startswith("v_cmp")  # whose mask is whole
    partial = i.suffix.endswith("dpp") or halves or _ACCUMULATES.match(i.mnemonic)
    if i.operands and results and (partial or _is_half(i)):
        reads.update(registers(i.operands[0]))
    if "swap" in i.mnemonic and i.mnemonic.startswith("v_"):
        reads.update(writes)
    return Uses(frozenset(reads), frozenset(writes))


def _is_half(i: Instruction) -> bool:
    """The result is a half of a register. Loads of halves are in turn with those of others."""
    return i.operands[0].half is not None and not i.mnemonic.startswith(_MEMORY)


def uses(i: Instruction, generation: int) -> Uses:
    """The registers of an instruction on a processor of a generation, 9 to 12."""
    return _by_text(i.text, generation)
