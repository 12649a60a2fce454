"""Races in LDS, whatever the values and the order of waves.

Two waves of a workgroup that touch the same bytes, one of them writing, need a barrier between:
the earlier access before its wave signals the barrier, the later one behind its wait. Atomics may
meet each other. For every cell of LDS stand the last write and the last read: how many barriers the
wave had signalled by then, which wave, and the instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from .decode import Instruction
from .errors import LdsRace
from .state import Array, Machine
from .uses import registers, uses

if TYPE_CHECKING:
    from .code import Program

LOAD, STORE, ATOMIC, SEED = "load", "store", "atomic", "seed"
_AT, _SLOT = 20, 20  # bits of a tag: instruction in words, slot; barriers signalled above them
_MEETS = 1 << _AT - 1  # in an instruction's bits: an atomic, or a load that may meet atomics
_MANY = (1 << _SLOT) - 1  # for a slot: several waves
_SLOTS = np.int64(_MANY << _AT)
_SIGNALS = _AT + _SLOT
_NEAR = 32  # instructions between a load and the loop that updates what it loaded


def seeds(instructions: Mapping[int, Instruction], generation: int) -> frozenset[int]:
    """Addresses of loads that begin a loop around a compare-and-swap of the same cell: another
    wave's update in between makes the swap fail, so they may meet atomics."""
    run = [instructions[at] for at in sorted(instructions)]
    found = set()
    for n, i in enumerate(run):
        if not i.mnemonic.startswith(("ds_load_b", "ds_read_b")):
            continue
        cell, address = (i.operands[1].text, i.number("offset")), set(registers(i.operands[1]))
        if address & set(registers(i.operands[0])):
            continue
        for later in run[n + 1 : n + _NEAR]:
            if address & uses(later, generation).writes:
                break
            if later.mnemonic.startswith("ds_cmpst"):
                at = 1 if "_rtn" in later.mnemonic else 0
                if (later.operands[at].text, later.number("offset")) == cell:
                    found.add(i.address)
    return frozenset(found)


class Races:
    """What the waves of a block did in LDS. A *cell* is as wide as the narrowest access so far."""

    def __init__(self, m: Machine, program: Program) -> None:
        self.m, self.program = m, program
        self.cell = 4  # bytes
        self.wrote = np.full(len(m.lds.bytes) // 4, -1, np.int64)
        self.read = self.wrote.copy()

    def note(self, kind: str, offset: Array, size: int) -> None:
        """Accesses of the active lanes at byte offsets int64[k] of the slab. LdsRace."""
        if not len(offset):
            return
        m = self.m
        slot = m.active(np.arange(m.waves)[m.g][:, None])
        cells = self._cells(offset, size)
        if kind == LOAD and m.at in self.program.seeds:
            kind = SEED
        at = m.at >> 2 | (_MEETS if kind in (ATOMIC, SEED) else 0)
        mine = (m.signals[slot] << _SIGNALS | slot << _AT | at)[:, None]
        passed = (m.waits[slot] << _SIGNALS)[:, None]
        self._meet(kind, cells, mine, passed, self.wrote, "written")
        if kind == SEED:
            self._note_excused(self.read, cells, mine)
        if kind == LOAD:
            self._note_read(cells, mine)
        if kind in (LOAD, SEED):
            return
        self._meet(kind, cells, mine, passed, self.read, "read")
        if kind == ATOMIC:
            self._note_excused(self.wrote, cells, mine)
            return
        self.wrote[cells] = mine
        self._meet(kind, cells, mine, passed, self.wrote, "written")

    def _cells(self, offset: Array, size: int) -> Array:
        """int64[k, cells of an access]."""
        while size % self.cell or (offset % self.cell).any():
            self.cell //= 2
            self.wrote, self.read = np.repeat(self.wrote, 2), np.repeat(self.read, 2)
        return (offset // self.cell)[:, None] + np.arange(size // self.cell)

    @staticmethod
    def _note_excused(table: Array, cells: Array, mine: Array) -> None:
        """Of one's own plain access since the last barrier the trace stays: that excuses less."""
        before = table[cells]
        stays = (before >> _SIGNALS == mine >> _SIGNALS) & (before & _MEETS == 0)
        table[cells] = np.where(stays, before, mine)

    def _note_read(self, cells: Array, mine: Array) -> None:
        before = self.read[cells]
        others = (before >> _SIGNALS == mine >> _SIGNALS) & ((before ^ mine) & _SLOTS != 0)
        new = np.where(others, mine | _SLOTS, mine)
        self.read[cells] = new
        several = (self.read[cells] ^ new) & _SLOTS != 0  # waves that read in this very instruction
        if several.any():
            self.read[cells[several]] = np.broadcast_to(mine | _SLOTS, cells.shape)[several]

    def _meet(
        self, kind: str, cells: Array, mine: Array, passed: Array, table: Array, done: str
    ) -> None:
        """LdsRace where another wave stands in the table with no barrier since."""
        before = table[cells]
        bad = (before >= passed) & ((before ^ mine) & _SLOTS != 0)
        if kind in (ATOMIC, SEED):  # they meet each other
            bad &= before & _MEETS == 0
        if not bad.any():
            return
        lane, n = np.argwhere(bad)[0]
        at = (int(before[lane, n]) & _MEETS - 1) << 2
        byte = int(cells[lane, n]) * self.cell % self.m.lds.stride
        raise LdsRace(
            f"a race in LDS: {kind if kind != SEED else LOAD} of byte {byte}, which another wave"
            f" has {done} with no barrier since, at {self.program.where(at)}"
        )
