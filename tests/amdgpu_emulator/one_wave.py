"""Instructions on chosen registers of one wave: assembled, disassembled, executed by the emulator.

m = execute("gfx942", "v_dot4_i32_i8 v3, v0, v1, v2", {"v0": a, "v1": b, "v2": c})
m.read(3)  # uint32[1, 64]
"""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Mapping

import numpy as np

from . import decode, elf, gpr_index, registry
from .lds import Lds
from .memory import Memory
from .operands import vector_index
from .state import EXEC, Arch, Machine

ASSEMBLER = "llvm-mc-22"


@functools.cache
def decoded(processor: str, text: str) -> tuple[decode.Instruction, ...]:
    """What the disassembler makes of the assembled text."""
    lanes = "" if processor.startswith("gfx9") else "+wavefrontsize32"
    command = [ASSEMBLER, "-triple=amdgcn-amd-amdhsa", f"-mcpu={processor}", f"-mattr={lanes}"]
    done = subprocess.run(
        [*command, "-filetype=obj", "-o", "-", "-"], input=text.encode(), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return tuple(i for _, i in sorted(decode.disassemble(done.stdout).items()))


def arch(processor: str) -> Arch:
    return Arch(processor, elf.generation(processor), 64 if processor.startswith("gfx9") else 32)


def machine(processor: str, lds_bytes: int = 0, seed: int = 0) -> Machine:
    """One wave, all lanes active."""
    made = Machine(
        arch=arch(processor),
        waves=1,
        memory=Memory(),
        lds=Lds(1, lds_bytes),
        rng=np.random.default_rng(seed),
        code_base=0,
        workgroup=np.zeros(1, np.int64),
        members=np.zeros((1, 1), np.int64),
        scratch_bytes=0,
        salt=seed,
    )
    made.mode_bits[:] = 0xF0  # denormals live, rounding to nearest
    made.select(slice(0, 1), 1)
    made.write_lane_bits(EXEC, np.ones((1, made.lanes), bool))
    return made


def execute(
    processor: str,
    text: str,
    registers: Mapping[str, object],
    active: np.ndarray | None = None,
    seed: int = 0,
    mode: int = 0xF0,
) -> Machine:
    """The wave after the instructions of `text`, one a line.

    `registers`: "v3", "a0", "s4" -> uint32 for each lane (one for a scalar); "v[0:3]" ->
    uint32[4, lanes]. `active`: bool[lanes], EXEC.
    """
    m = machine(processor, seed=seed)
    m.mode_bits[:] = mode
    m.select(slice(0, 1), 1)
    for name, value in registers.items():
        o = decode.operand(name)
        rows = np.asarray(value).reshape(o.count, -1)
        for k in range(o.count):
            if o.is_vector:
                m.write_all(vector_index(o) + k, np.broadcast_to(rows[k], (1, m.lanes)))
            else:
                m.write_scalar(o.index + k, rows[k].astype(np.uint32))
    if active is not None:
        m.write_lane_bits(EXEC, active[None])
    with np.errstate(all="ignore"):
        instructions = {i.address: i for i in decoded(processor, text)}
        at = 0
        while i := instructions.get(at):
            if i.mnemonic == gpr_index.START:
                step, at = gpr_index.sequence(instructions, i, m.arch)
            else:
                step, at = registry.build(i, m.arch), i.next
            step(m)
    return m
