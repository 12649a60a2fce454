"""AMD code with an instruction less, for tests of what finds that."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from amdgpu_emulator import CodeObject
from amdgpu_emulator.decode import Instruction
from amdgpu_emulator.flow import reached

JUMPS = ("s_branch", "s_cbranch")


def without(code: CodeObject, gone: Instruction, before: Instruction) -> CodeObject:
    """The code less the instruction behind `before`."""
    made = object.__new__(CodeObject)
    made.__dict__.update(code.__dict__)
    made.instructions = dict(code.instructions)
    del made.instructions[gone.address]
    made.instructions[before.address] = replace(before, size=before.size + gone.size)
    made._programs = {}
    return made


def removable(code: CodeObject, kind: Callable[[Instruction], bool]) -> Iterator[CodeObject]:
    """The code of one kernel less each instruction of a kind that no branch leads to."""
    (kernel,) = code.kernels
    entry = code.descriptor(kernel).entry
    run = [code.instructions[at] for at in sorted(reached(code.instructions, [entry]))]
    targets = {i.branch_target for i in run if i.mnemonic.startswith(JUMPS)}
    for before, i in itertools.pairwise(run):
        follows = before.next == i.address and not before.mnemonic.startswith(JUMPS)
        if kind(i) and follows and i.address not in targets:
            yield without(code, i, before)
