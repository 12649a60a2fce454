"""Dispatch: from an AQL packet's values to initial registers and blocks of workgroups.

Initial registers: "Initial Kernel Execution State" of LLVM's AMDGPUUsage.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import CodeObject, Program
from .elf import Descriptor
from .errors import CodeObjectError, EmulationError
from .lds import Lds
from .memory import Memory
from .races import Races
from .scheduler import Budget, run
from .state import EXEC, TTMP, Arch, Machine

Array = np.ndarray[Any, Any]
Triple = tuple[int, int, int]

# Lanes of all waves of a block: wide enough that numpy's cost per call is small against its work,
# narrow enough that registers stay in the cache.
BLOCK_LANES = 32768
LIMIT = 10_000_000  # steps of a block
SCRATCH_LIMIT = 1 << 30


@dataclass(frozen=True)
class Stats:
    """`instructions`: of all waves; `steps`: of groups of waves."""

    instructions: int
    steps: int


def wave_size(code: CodeObject, d: Descriptor) -> int:
    return 32 if d.bit(10) else 64


def dispatch(
    code: CodeObject,
    kernel: str,
    grid: Triple,
    workgroup: Triple,
    kernarg_address: int,
    memory: Memory,
    dynamic_lds: int = 0,
    rng: np.random.Generator | None = None,
    packet_address: int | None = None,
    paired: bool = True,
) -> Stats:
    """Execute a dispatch of `grid` work-items in workgroups of `workgroup`.

    All memory that the kernel may touch, its kernarg block included, is registered in `memory`.
    `rng` shuffles waves and perturbs results that hardware only bounds. paired: see
    `counters.Waits`. Raises `EmulationError`.
    """
    rng = rng or np.random.default_rng()
    d = code.descriptor(kernel)
    if any(g % w for g, w in zip(grid, workgroup, strict=True)):
        raise CodeObjectError(f"grid {grid} is not of whole workgroups {workgroup}")
    shape = tuple(g // w for g, w in zip(grid, workgroup, strict=True))
    program = code.program(wave_size(code, d))
    try:
        program.check(d.entry, paired)
    except EmulationError as error:
        raise error.place(kernel, error.where) from None
    budget = Budget(LIMIT)
    packet = None
    if packet_address is None:
        packet = _packet(d, grid, workgroup, kernarg_address, dynamic_lds)
        packet_address = memory.add_array(packet, "dispatch packet", writable=False)
    memory.add(code.base, code.image.size, "code object", writable=False)
    start = _Start(program, d, shape, workgroup, kernarg_address, packet_address, memory, rng)
    try:
        with np.errstate(all="ignore"):
            for groups in _blocks(
                rng, int(np.prod(shape, dtype=np.int64)), start.waves_each, d, program.arch.lanes
            ):
                m = start.machine(groups, d.lds_bytes + dynamic_lds)
                run(m, program, _parts(m, start.waves_each), budget, kernel)
                budget.limit = budget.steps + LIMIT
    finally:
        memory.remove(code.base)
        if packet is not None:
            memory.remove(packet_address)
    return Stats(budget.instructions, budget.steps)


def _packet(
    d: Descriptor, grid: Triple, workgroup: Triple, kernarg: int, dynamic_lds: int
) -> Array:
    """hsa_kernel_dispatch_packet_t as the queue would hold it."""
    row = struct.pack(
        "<HHHHHHIIIIIQQQQ", 2, 3, *workgroup, 0, *grid,
        d.scratch_bytes, d.lds_bytes + dynamic_lds, 0, kernarg, 0, 0,
    )  # fmt: skip
    return np.frombuffer(row, np.uint8).copy()


def _blocks(
    rng: np.random.Generator, total: int, waves: int, d: Descriptor, lanes: int
) -> list[Array]:
    """The workgroups in shuffled order, cut into blocks."""
    most = max(BLOCK_LANES // (waves * lanes), 1)
    if d.scratch_bytes:
        most = max(min(most, SCRATCH_LIMIT // (d.scratch_bytes * waves * lanes)), 1)
    order = rng.permutation(total)
    return [order[at : at + most] for at in range(0, total, most)]


def _parts(m: Machine, waves_each: int) -> list[slice]:
    """Two parts wherever a workgroup has several waves."""
    if waves_each == 1 or m.waves < 2:
        return [slice(0, m.waves)]
    cut = m.waves // 2
    return [slice(0, cut), slice(cut, m.waves)]


@dataclass
class _Start:
    """Makes the machine of a block."""

    program: Program
    d: Descriptor
    shape: tuple[int, ...]
    workgroup: Triple
    kernarg: int
    packet: int
    memory: Memory
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.salt = self.rng.integers(0, 1 << 64, dtype=np.uint64)

    @property
    def waves_each(self) -> int:
        x, y, z = self.workgroup
        return -(-x * y * z // self.program.arch.lanes)

    def machine(self, groups: Array, lds_bytes: int) -> Machine:
        """State of all waves of `groups` (linear ids, x fastest), in shuffled order."""
        each = self.waves_each
        waves = len(groups) * each
        order = self.rng.permutation(waves)  # wave of each slot
        slots = np.empty(waves, np.int64)
        slots[order] = np.arange(waves)
        m = Machine(
            arch=self.program.arch,
            waves=waves,
            memory=self.memory,
            lds=Lds(len(groups), lds_bytes),
            rng=self.rng,
            code_base=self.program.code.base,
            workgroup=order // each,
            members=slots.reshape(len(groups), each),
            scratch_bytes=self.d.scratch_bytes,
            salt=self.salt,
        )
        m.pc[:] = self.d.entry
        m.mode_bits[:] = (
            self.d.rsrc1 >> 12 & 0xFF
            | (self.d.rsrc1 >> 21 & 1) << 8
            | (self.d.rsrc1 >> 23 & 1) << 9
        )
        self._lanes(m, order % each)
        self._scalars(m, groups[m.workgroup])
        if each > 1 and lds_bytes:
            m.lds.watch = Races(m, self.program)
        m.select(slice(0, waves), waves)
        return m

    def _lanes(self, m: Machine, wave: Array) -> None:
        """EXEC and the work-item ids, from the number of each wave in its workgroup."""
        x, y, z = self.workgroup
        linear = wave[:, None] * m.lanes + np.arange(m.lanes)
        m.select(slice(0, m.waves), m.waves)
        m.write_lane_bits(EXEC, linear < x * y * z)
        ids = (linear % x, linear // x % y, linear // (x * y))
        if _packed_ids(self.program.arch):
            packed = ids[0] | ids[1] << 10 | ids[2] << 20
            m.write_all(0, packed.astype(np.uint32))
            return
        for register in range((self.d.rsrc2 >> 11 & 3) + 1):
            m.write_all(register, ids[register].astype(np.uint32))

    def _scalars(self, m: Machine, group: Array) -> None:
        """User and system scalar registers, from each slot's linear workgroup id."""
        d, at = self.d, 0

        def put(*values: Any) -> None:
            nonlocal at
            for value in values:
                m.S[at] = value
                at += 1

        def put_address(value: int) -> None:
            put(value & 0xFFFFFFFF, value >> 32)

        if d.bit(0):  # buffer resource of scratch; the emulator knows it by its base
            put(SCRATCH_RESOURCE & 0xFFFFFFFF, SCRATCH_RESOURCE >> 32, 0xFFFFFFFF, 0)
        if d.bit(1):
            put_address(self.packet)
        if d.bit(2):
            put(0, 0)
        if d.bit(3):
            put_address(self.kernarg)
        if d.bit(4):
            put(0, 0)
        if d.bit(5):
            put(0, 0)
        if d.bit(6):
            put(d.scratch_bytes)
        self._preload(m, at)
        at = d.user_sgprs
        ids = (
            group % self.shape[0],
            group // self.shape[0] % self.shape[1],
            group // (self.shape[0] * self.shape[1]),
        )
        if self.program.arch.generation >= 12:
            m.S[TTMP + 9] = ids[0]
            m.S[TTMP + 7] = ids[1] | ids[2] << 16
            return
        for axis in range(3):
            if d.rsrc2 >> 7 + axis & 1:
                put(ids[axis])
        if d.rsrc2 >> 10 & 1:
            put(0)
        if d.rsrc2 & 1:
            put(0)  # offset of the wave's scratch: every lane's scratch starts at 0 here

    def _preload(self, m: Machine, at: int) -> None:
        """Words of the kernarg block that the descriptor wants in user registers."""
        length, offset = self.d.preload & 0x7F, self.d.preload >> 7
        if length:
            address = np.array([self.kernarg + 4 * offset], np.uint64)
            m.S[at : at + length] = self.memory.load(address, 4 * length)[0][:, None]


SCRATCH_RESOURCE = 0x0000_5C4A_7C40_0000


def _packed_ids(arch: Arch) -> bool:
    """The three work-item ids share v0, ten bits each."""
    return (
        arch.generation >= 11
        or arch.processor in ("gfx90a", "gfx942", "gfx950")
        or (arch.processor == "gfx9-4-generic")
    )
