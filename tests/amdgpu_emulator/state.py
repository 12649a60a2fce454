"""The state of all waves of a block of workgroups, and of the group of waves that executes.

V[r]: uint32[waves, lanes], S[r]: uint32[waves]. A *group* is a set of waves at one PC; `g` (a slice
or an index array) selects it. Semantics see only the group: `count` waves, `mask` of the active
lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .decode import EXEC, M0, NULL, TTMP, VCC
from .lds import Lds
from .memory import Memory

__all__ = ["EXEC", "M0", "NULL", "TEMPORARIES", "TTMP", "VCC", "Arch", "Machine", "Mode"]

Array = np.ndarray[Any, Any]

# Numbers in V: 0-255 vector registers, 256-511 accumulation registers, then registers that no
# encoding reaches, for instruction forms that route an operand (DPP, SDWA, dual issue).
ACCUMULATION, TEMPORARY, TEMPORARIES = 256, 512, 8
RUNNING, WAITING, ENDED = 0, 1, 2


@dataclass(frozen=True)
class Arch:
    """What the semantics depend on: processor name, generation (9 to 12), lanes of a wave."""

    processor: str
    generation: int
    lanes: int


@dataclass(frozen=True)
class Mode:
    """The MODE register: rounding and denormal fields as encoded (0 = nearest even; bit 0 of a
    denormal field lets inputs live, bit 1 outputs)."""

    round_32: int = 0
    round_16_64: int = 0
    denormal_32: int = 3
    denormal_16_64: int = 3
    ieee: bool = True
    dx10_clamp: bool = True

    @staticmethod
    def from_bits(bits: int) -> Mode:
        return Mode(
            bits & 3,
            bits >> 2 & 3,
            bits >> 4 & 3,
            bits >> 6 & 3,
            bool(bits >> 9 & 1),
            bool(bits >> 8 & 1),
        )


@dataclass
class Machine:
    """State of one block. Slots (rows) are waves in shuffled order."""

    arch: Arch
    waves: int
    memory: Memory
    lds: Lds
    rng: np.random.Generator
    code_base: int  # real address of the code object's address 0
    workgroup: Array  # int64[waves]: workgroup within the block of each slot
    members: Array  # int64[workgroups, waves of each]: slots
    scratch_bytes: int
    # decides results that hardware only bounds
    salt: np.uint64 = field(default_factory=lambda: np.uint64(0))
    V: list[Array | None] = field(default_factory=list)
    S: Array = field(default_factory=lambda: np.zeros(0, np.uint32))

    def __post_init__(self) -> None:
        self.lanes = self.arch.lanes
        self.V = [None] * (TEMPORARY + TEMPORARIES)
        self.S = np.empty((128, self.waves), np.uint32)
        self.S[:] = self.rng.integers(0, 1 << 32, (128, 1), dtype=np.uint32)
        self.S[NULL] = 0
        self.scc = np.zeros(self.waves, np.bool_)
        self.pc = np.zeros(self.waves, np.int64)
        self.status = np.zeros(self.waves, np.int8)
        self.signals = np.zeros(self.waves, np.int64)
        self.waits = np.zeros(self.waves, np.int64)
        self.mode_bits = np.zeros(self.waves, np.uint32)
        self._scratch: Array | None = None
        self.at = 0  # address of the instruction that executes
        self.yielded = False
        self.select(slice(0, self.waves), self.waves)

    # the group that executes

    def select(self, group: slice | Array, count: int) -> None:
        """Let the waves `group` execute; they share their PC and their mode."""
        self.g: slice | Array = group
        self.count = count
        bits = self.mode_bits[group]
        if len(bits) and (bits != bits[0]).any():
            raise AssertionError("waves at one PC in different modes")
        self.mode = Mode.from_bits(int(bits[0])) if len(bits) else Mode()
        self.refresh_mask()

    def refresh_mask(self) -> None:
        """After a write of EXEC."""
        self.mask: Array = self.lane_bits(EXEC)
        self.full = bool(self.mask.all())

    # registers

    def vector(self, register: int) -> Array:
        """The whole register uint32[waves, lanes]; made, as garbage, by its first use."""
        found = self.V[register]
        if found is None:
            garbage = self.rng.integers(0, 1 << 32, dtype=np.uint32)
            found = self.V[register] = np.full((self.waves, self.lanes), garbage, np.uint32)
        return found

    def read(self, register: int) -> Array:
        """uint32[count, lanes]; may be a view: not to be written."""
        v = self.V[register]
        return (self.vector(register) if v is None else v)[self.g]

    def write(self, register: int, value: Array) -> None:
        """Write uint32 broadcastable to [count, lanes] in the active lanes."""
        v = self.V[register]
        if v is None:
            v = self.vector(register)
        if self.full:
            v[self.g] = value
        elif isinstance(self.g, slice):
            np.copyto(v[self.g], value, where=self.mask)
        else:
            v[self.g] = np.where(self.mask, value, v[self.g])

    def write_all(self, register: int, value: Array) -> None:
        """Write whatever EXEC says: for what the hardware does in all lanes."""
        self.vector(register)[self.g] = value

    def scalar(self, register: int) -> Array:
        """uint32[count]; may be a view."""
        found: Array = self.S[register][self.g]
        return found

    def write_scalar(self, register: int, value: Array | int) -> None:
        if register == NULL:
            return
        self.S[register][self.g] = value
        if register >= EXEC:
            self.refresh_mask()

    # masks of lanes in scalar registers

    def lane_bits(self, register: int) -> Array:
        """bool[count, lanes] from one scalar register (two in wave64)."""
        words = self.S[register][self.g]
        if self.lanes == 64:
            words = np.stack((words, self.S[register + 1][self.g]), axis=1)
        octets = np.ascontiguousarray(words).view(np.uint8).reshape(self.count, self.lanes // 8)
        return np.unpackbits(octets, axis=1, bitorder="little").view(np.bool_)

    def pack(self, bits: Array) -> Array:
        """uint32[count, lanes/32] from bool[count, lanes]."""
        octets = np.packbits(np.ascontiguousarray(bits), axis=1, bitorder="little")
        return octets.view(np.uint32)

    def write_lane_bits(self, register: int, bits: Array) -> None:
        """A mask bool[count, lanes] into one scalar register (two in wave64), all lanes of it."""
        if register == NULL:
            return
        words = self.pack(bits)
        self.S[register][self.g] = words[:, 0]
        if self.lanes == 64:
            self.S[register + 1][self.g] = words[:, 1]
        if register >= EXEC:
            self.refresh_mask()

    # what belongs to waves

    def set_scc(self, value: Array) -> None:
        self.scc[self.g] = value

    def get_scc(self) -> Array:
        found: Array = self.scc[self.g]
        return found

    def set_mode_bits(self, bits: Array) -> None:
        self.mode_bits[self.g] = bits
        self.select(self.g, self.count)

    def active(self, value: Array) -> Array:
        """[k] of the active lanes from something broadcastable to [count, lanes]."""
        if value.shape != self.mask.shape:
            value = np.broadcast_to(value, self.mask.shape)
        return value.reshape(-1) if self.full else value[self.mask]

    def spread(self, values: Array) -> Array:
        """The converse of `active`: [k] -> [count, lanes], 0 in the other lanes."""
        if self.full:
            return values.reshape(self.mask.shape)
        out = np.zeros(self.mask.shape, values.dtype)
        out[self.mask] = values
        return out

    def groups_of_lanes(self) -> Array:
        """int64[k]: the workgroup of each active lane."""
        return self.active(self.workgroup[self.g][:, None])

    def scratch(self) -> Array:
        """uint8[waves * lanes * scratch bytes]: the private memory of every lane, one by one."""
        if self._scratch is None:
            size = self.waves * self.lanes * self.scratch_bytes + 16
            self._scratch = np.full(size, 0x5A, np.uint8)
        return self._scratch

    def scratch_bases(self) -> Array:
        """int64[count, lanes]: where the private memory of each lane begins in `scratch()`."""
        slots = np.arange(self.waves)[self.g][:, None] * self.lanes + np.arange(self.lanes)
        return slots * self.scratch_bytes
