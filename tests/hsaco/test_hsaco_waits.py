"""Compiled code waits for what it uses and for what others are to see, and no wait of it can be
left out unseen."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from amdgpu_emulator import CodeObject, LdsRace, MissingWait, UnwrittenLds
from amdgpu_emulator.code import Program
from amdgpu_emulator.counters import BARRIERS, waited
from amdgpu_emulator.decode import Instruction
from amdgpu_emulator.launch import wave_size
from amdgpu_emulator.one_wave import arch
from code_mutants import removable
from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.ir import interp
from gristmill.ir.abi import evaluate
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.kernels import families
from hsaco_tools import BASELINES, Emulated, compiled, shipped
from kernel_text import kernel


@pytest.fixture(autouse=True)
def disassembler(require: Callable[..., None]) -> None:
    require("llvm-objdump")


@pytest.mark.parametrize(
    ("processor", "name"),
    [
        *((processor, "softmax") for processor in ("gfx908", "gfx942", "gfx1030", "gfx1201")),
        ("gfx1100", "matmul"),
    ],
)
def test_no_wait_of_a_shipped_kernel_can_be_left_out(processor: str, name: str) -> None:
    k = next(k for _, k in shipped(f"hsaco-{processor}") if k.name == name)
    code = CodeObject.read(compiled(k, processor)[0])
    (entry,) = code.kernels
    d = code.descriptor(entry)
    of = replace(arch(processor), lanes=wave_size(code, d))
    Program(code, of).check(d.entry)
    tried = 0

    def guards(i: Instruction) -> bool:
        """It waits, and not before a barrier, where there may be nothing to wait for."""
        if not waited(i, of.generation):
            return False
        while waited(i, of.generation):
            i = code.instructions[i.next]
        return i.mnemonic not in BARRIERS

    for mutant in removable(code, guards):
        tried += 1
        with pytest.raises(MissingWait):
            Program(mutant, of).check(d.entry)
    assert tried > 5


# What the end of a loop stores is read behind the barrier at its top, in the next turn.
TURNS = """
    %12 = alloc {{name="cells"}} : workgroup<i32,128>
    %3 = local_linear_id : i32
    %4 = const 127 : i32
    %5 = sub %4, %3 : i32
    %6 = const 0 : i32
    store %12, %3, %3
    for %6, %2 body(%8: i32) {{
      {sync}
      %9 = load {cells}, %5 : i32
      {sync}
      %10 = add %9, %3 : i32
      store {cells}, %3, %10
      continue
    }}
    barrier
    %11 = load {cells}, %5 : i32
    store %0, %3, %11
    return"""
PARAMS = "y: i32 buffer write, z: i32 buffer readwrite, turns: i32 scalar"


@pytest.mark.parametrize("cells", ["%12", "%1"], ids=["workgroup", "buffer"])
@pytest.mark.parametrize("processor", [*PROCESSORS])
def test_a_barrier_at_the_top_of_a_loop_waits_for_the_stores_at_its_end(
    processor: str, cells: str, rng: np.random.Generator
) -> None:
    k = kernel(PARAMS, TURNS.format(sync="barrier", cells=cells), "128 1 1")
    if processor not in BASELINES:
        code = CodeObject.read(compiled(k, processor)[0])
        d = code.descriptor(k.name)
        code.program(wave_size(code, d)).check(d.entry)
        return
    x = rng.integers(-99, 99, 128).astype(np.int32)
    expected, got = ([np.zeros(128, np.int32), x.copy(), 5] for _ in range(2))
    interp.run(k, expected, (1, 1, 1))
    Emulated(k, processor).run(got, (1, 1, 1), rng)
    assert np.array_equal(got[0], expected[0])
    assert np.array_equal(got[1], expected[1])


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_a_fence_in_a_loop_waits_for_the_stores_at_its_end(arch: str) -> None:
    fence = 'fence {order="release", scope="device"}'
    k = kernel(PARAMS, TURNS.format(sync=fence, cells="%1"), "64 1 1")
    code = CodeObject.read(compiled(k, arch)[0])
    stores = {"gfx942": "vmcnt", "gfx1100": "vscnt", "gfx1201": "storecnt"}[arch]
    run = [code.instructions[at] for at in sorted(code.instructions)]
    end = max(
        n for n, i in enumerate(run) if "s_cbranch" in i.mnemonic and i.branch_target < i.address
    )
    start = code.instructions[run[end].branch_target]
    loop = run[run.index(start) : end]
    (store,) = [n for n, i in enumerate(loop) if "global_store" in i.mnemonic]
    level = PROCESSORS[arch].level
    assert 0 in [waited(i, level).get(stores) for i in loop[store:]]


@pytest.mark.parametrize("arch", BASELINES)
@pytest.mark.parametrize("name", ["histogram", "scan_blocks", "matmul"])
def test_no_barrier_of_a_shipped_kernel_can_be_left_out(
    name: str, arch: str, rng: np.random.Generator
) -> None:
    k = next(k for _, k in shipped(f"hsaco-{arch}") if k.name == name)
    inputs = families()[name].inputs(rng, dict(k.constexprs))
    args = max(itertools.islice(inputs, 3), key=lambda a: sum(np.size(v) for v in a.values()))
    counts = {p.name: np.asarray(args[p.name]).size for p in k.params if p.is_memory}
    scalars = {p.name: args[p.name] for p in k.params if not p.is_memory}
    x, y, z = (evaluate(e, counts, scalars) for e in k.grid)
    lines = print_kernel(k).splitlines()
    barriers = [n for n, line in enumerate(lines) if line.strip() == "barrier"]
    assert barriers
    for n in barriers:
        less = parse_kernel("\n".join([*lines[:n], *lines[n + 1 :]]))
        with pytest.raises((LdsRace, UnwrittenLds)):
            Emulated(less, arch).run(list(args.values()), (x, y, z), rng)
