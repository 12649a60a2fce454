"""Wait states of gfx9: what hardware does not wait for itself, and software has to keep apart.

Each instruction is one wait state, `s_nop n` is n + 1. The figures are those of "Manually inserted
wait states" in AMD's instruction set manuals (Vega, and CDNA 1 to 4) as LLVM's hazard recognizer
has them; where a figure of gfx950 is in doubt, the smaller one. gfx10 and later wait by themselves,
but for the few cases that LLVM works around, which are not modelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from . import products
from .decode import EXEC, M0, VCC, Instruction
from .errors import MissingWait
from .flow import State, analyse
from .state import Arch
from .uses import (
    VECTORS,
    Uses,
    is_lds,
    is_vector_alu,
    is_vector_memory,
    name,
    registers,
    uses,
)

# What a register was last touched by
ALU, TRANS, SELECTED, DOT, MATRIX, SUMMAND, STORED, SCALAR, ACCUMULATION = (
    *("vector ALU", "transcendental", "half", "dot product", "matrix product", "summand"),
    *("wide store", "scalar ALU", "v_accvgpr_write"),
)
Need = tuple[int, str, int]  # wait states, what, register
_TRANS = re.compile(r"v_(exp|log|rcp|rsq|sqrt|sin|cos)_")
_WIDE = re.compile(r"_store_(dwordx[34]|b96|b128)")


class Hazards:
    """The check of one program of gfx9."""

    def __init__(self, arch: Arch) -> None:
        self.processor = arch.processor
        self.cdna3 = arch.processor in ("gfx942", "gfx950", "gfx9-4-generic")
        self.unified = self.cdna3 or arch.processor == "gfx90a"

    def run(self, instructions: Mapping[int, Instruction], entries: Iterable[int]) -> None:
        """MissingWait for the first instruction that comes too early."""
        self.instructions = instructions
        analyse(instructions, entries, 1, self._step)

    def _step(self, i: Instruction, state: State, final: bool) -> None:
        (ledger,), used = state, uses(i, 9)
        if final:
            for need, kind, register in self._needs(i, used):
                age = ledger.since((kind, register))
                if age is not None and age < need:
                    raise self._error(i, need, age, kind, register, ledger.last[kind, register][1])
            if self.unified or self.processor == "gfx908":
                self._products(i, used, state)
        ledger.clock += 1 + (int(i.operands[0].value) if i.mnemonic == "s_nop" else 0)
        for kind, register in self._effects(i, used):
            ledger.note((kind, register), i.address)

    def _error(
        self, i: Instruction, need: int, age: int, kind: str, register: int, address: int
    ) -> MissingWait:
        error = MissingWait(
            f"{name(register)} is used {age} wait states after `{self.instructions[address].text}`"
            f" at {address:#x} ({kind}): it takes {need}"
        )
        error.place("", f"{i.address:#x}: {i.text}")
        return error

    def _effects(self, i: Instruction, used: Uses) -> Iterator[tuple[str, int]]:
        """(kind, register) of what an instruction leaves behind."""
        if products.is_product(i):
            for register in used.writes:
                yield MATRIX, register
            for register in registers(i.operands[3]):
                yield SUMMAND, register
            return
        if is_vector_alu(i):
            for register in used.writes:
                yield ALU, register
                if products.is_dot(i):
                    yield DOT, register
                if _TRANS.match(i.mnemonic):
                    yield TRANS, register
                if _moves_half(i):
                    yield SELECTED, register
                if i.mnemonic.startswith("v_accvgpr_write"):
                    yield ACCUMULATION, register
        elif _WIDE.search(i.mnemonic) and not (
            i.mnemonic.startswith("buffer_") and i.operands[-1].kind == "s"
        ):
            data = i.operands[0 if i.mnemonic.startswith("buffer_") else 1]
            for register in registers(data):
                yield STORED, register
        elif i.mnemonic.startswith("s_") and M0 in used.writes:
            yield SCALAR, M0

    def _needs(self, i: Instruction, used: Uses) -> Iterator[Need]:
        """What every processor of gfx9 wants, and what CDNA 3 and later want of vector ALUs."""
        m = i.mnemonic
        if is_vector_memory(i):
            yield from ((5, ALU, r) for r in used.reads if r < VECTORS)
        if m.startswith("s_movrel") or m == "s_sendmsg":
            yield 1, SCALAR, M0
        if not is_vector_alu(i):
            return
        if m.startswith(("v_readlane", "v_writelane")):
            yield from ((4, ALU, r) for r in registers(i.operands[2]))
        if m.startswith("v_div_fmas"):
            yield 4, ALU, VCC
        if i.suffix.endswith("dpp"):
            yield from ((2, ALU, r) for r in used.reads if r >= VECTORS)
            yield 5, ALU, EXEC
        for register in used.writes:
            yield 2 if self.cdna3 else 1, STORED, register
        if not self.cdna3 or products.is_product(i):
            return
        for register in used.reads:
            if register < VECTORS and register not in (EXEC, EXEC + 1):
                yield 2, ALU, register
            elif register >= VECTORS:
                yield 1, SELECTED, register
                if not _TRANS.match(m):
                    yield 1, TRANS, register
        if m.startswith(("v_readlane", "v_readfirstlane")):
            yield from ((1, ALU, r) for r in registers(i.operands[1]))
        if m.startswith(("v_readlane", "v_readfirstlane", "v_writelane")):
            yield 4, ALU, EXEC

    def _products(self, i: Instruction, used: Uses, state: State) -> None:
        """Around matrix and dot products."""
        (ledger,) = state
        table = products.needs_unified if self.unified else products.needs_separate
        memory = is_vector_memory(i) or is_lds(i)
        for register, position in _places(i, used):
            for kind in (MATRIX, DOT, SUMMAND, ALU, ACCUMULATION):
                age = ledger.since((kind, register))
                if age is None or age > products.LONGEST:
                    continue
                address = ledger.last[kind, register][1]
                before = self.instructions[address]
                need = table(self.processor, i, position, memory, kind, before)
                if age < need:
                    raise self._error(i, need, age, kind, register, address)


def _places(i: Instruction, used: Uses) -> Iterator[tuple[int, int]]:
    """(register, operand position) of what vector ALUs and memory instructions touch; EXEC last."""
    if not (is_vector_alu(i) or is_vector_memory(i) or is_lds(i)):
        return
    for position, o in enumerate(i.operands):
        yield from ((r, position) for r in registers(o) if r >= VECTORS)
    yield EXEC, -1


def _moves_half(i: Instruction) -> bool:
    """The result goes to another place than the low bits."""
    if i.suffix == "sdwa":
        return str(i.modifiers.get("dst_sel", "DWORD")) != "DWORD"
    bits = str(i.modifiers.get("op_sel", "")).strip("[]").split(",")
    return len(bits) == len(i.operands) and bits[-1] == "1" and not i.mnemonic.startswith("v_pk_")
