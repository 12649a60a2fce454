"""Waves of a workgroup that meet in LDS with no barrier between are found, whatever they do there
and whoever comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from amdgpu_emulator import LdsRace
from emulator_tools import BARRIER, FOOTER, HEADER, PROCESSORS, WIDE, compile_ir, launch

FRAME = (
    HEADER
    + """
declare void @llvm.amdgcn.s.barrier()
@cells = internal addrspace(3) global [1024 x i32] poison, align 16
define amdgpu_kernel void @meet(ptr addrspace(1) noalias %out) #0 {{
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %o = sub i32 255, %t
  %own = getelementptr i32, ptr addrspace(3) @cells, i32 %t
  %other = getelementptr i32, ptr addrspace(3) @cells, i32 %o
  store i32 %t, ptr addrspace(3) %own
{barrier}
{first}
{between}
{second}
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %q
  ret void
}}
"""
    + FOOTER.format(size=WIDE, extra="").replace("{", "{{").replace("}", "}}")
)
READ = "%r = load volatile i32, ptr addrspace(3) {where}"
WRITE = "%r = add i32 %t, 1\n store volatile i32 %t, ptr addrspace(3) {where}"
FETCH = '%r = atomicrmw add ptr addrspace(3) {where}, i32 1 syncscope("workgroup") monotonic'
SAME = "%same = getelementptr i32, ptr addrspace(3) @cells, i32 0\n"
BYTE = """%b = getelementptr i8, ptr addrspace(3) @cells, i32 {place}
  store volatile i8 7, ptr addrspace(3) %b"""


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("llc")


def run(
    processor: str,
    rng: np.random.Generator,
    first: str,
    second: str,
    between: str,
    size: int = WIDE,
) -> Any:
    """One workgroup of `size` invocations does `first`, what is between, and `second`."""
    text = FRAME.format(barrier=BARRIER, first=first, between=between, second=second)
    out = np.zeros(size, np.int32)
    launch(compile_ir(text, processor), "meet", (size, 1, 1), (size, 1, 1), [out], rng)
    return out


def without_result(op: str) -> str:
    return op.replace("%r", "%first")


RACE = r"kernel meet: a race in LDS: (load|store|atomic) of byte \d+, which another wave has"
RACE += r" (read|written) with no barrier since, at 0x.*: ds_.*, at 0x.*: ds_"
# The first wave writes a cell that all have read.
ONE_WRITES = (
    SAME
    + """  %low = icmp eq i32 %t, 0
  br i1 %low, label %put, label %go
put:
  store volatile i32 5, ptr addrspace(3) %same
  br label %go
go:
  %r = add i32 %t, 0"""
)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (READ.format(where="%other"), WRITE.format(where="%own")),
        (WRITE.format(where="%own"), READ.format(where="%other")),
        (WRITE.format(where="%own"), WRITE.format(where="%other")),
        (FETCH.format(where="%own"), READ.format(where="%other")),
        (WRITE.format(where="%own"), FETCH.format(where="%other")),
        (SAME + READ.format(where="%same"), ONE_WRITES.replace(SAME, "")),
    ],
)
def test_two_waves_meet_without_a_barrier(
    processor: str, first: str, second: str, rng: np.random.Generator
) -> None:
    first = without_result(first)
    run(processor, rng, first, second, BARRIER)
    for _ in range(3):  # in any order of waves
        with pytest.raises(LdsRace, match=RACE):
            run(processor, rng, first, second, "")


@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_atomic_does_not_hide_the_plain_store_before_it(
    processor: str, rng: np.random.Generator
) -> None:
    """The first wave clears a counter, and all count, with no barrier between."""
    clear = ONE_WRITES.replace("%r", "%first").replace("store volatile i32 5", "store i32 0")
    count = '%r = atomicrmw add ptr addrspace(3) %own, i32 1 syncscope("workgroup") monotonic'
    everywhere = count.replace("%own", "%same")
    two_waves = 128 if processor == "gfx942" else 64  # either of which may do all before the other
    run(processor, rng, clear, everywhere, BARRIER, two_waves)
    for _ in range(8):
        with pytest.raises(LdsRace, match=RACE):
            run(processor, rng, clear, everywhere, "", two_waves)


def test_waves_that_write_a_cell_in_one_instruction_meet(rng: np.random.Generator) -> None:
    with pytest.raises(LdsRace, match="store of byte 0, which another wave has written"):
        run("gfx1100", rng, "", SAME + WRITE.format(where="%same"), "")


@pytest.mark.parametrize("processor", PROCESSORS)
def test_neighbours_in_a_word_do_not_meet(processor: str, rng: np.random.Generator) -> None:
    """Bytes of one word that different waves write."""
    place = "%mixed"
    spread = "%m = shl i32 %t, 2\n  %l = lshr i32 %t, 6\n  %w = and i32 %m, 255\n"
    spread += "  %mixed0 = or i32 %w, %l\n  %mixed = add i32 %mixed0, 2048\n"
    run(processor, rng, spread + BYTE.format(place=place), "%r = add i32 %t, 0", "")
    clash = BYTE.format(place="%w").replace("%b", "%c")
    with pytest.raises(LdsRace, match=r"store of byte \d+, .* has written"):
        run(processor, rng, spread.replace("2048", "0") + BYTE.format(place=place),
            clash + "\n  %r = add i32 %t, 0", "")  # fmt: skip


@pytest.mark.parametrize("processor", PROCESSORS)
def test_atomics_may_meet_also_as_loops_around_a_swap(
    processor: str, rng: np.random.Generator
) -> None:
    at = (
        SAME
        + '  %r = atomicrmw {kind} ptr addrspace(3) %same, i32 {n} syncscope("workgroup") monotonic'
    )
    run(processor, rng, without_result(at.format(kind="add", n=3)),
        FETCH.format(where="%other"), "")  # fmt: skip
    loop = at.format(kind="nand", n=5)  # which no processor has
    run(processor, rng, "", loop, "")
    with pytest.raises(LdsRace):
        run(processor, rng, READ.format(where="%other").replace("%r", "%first"), loop, "")


def test_workgroups_do_not_meet(rng: np.random.Generator) -> None:
    read = READ.format(where="%own")
    data = compile_ir(FRAME.format(barrier="", first="", between="", second=read), "gfx1100")
    out = np.zeros(WIDE, np.int32)
    launch(data, "meet", (8 * WIDE, 1, 1), (WIDE, 1, 1), [out], rng)
    assert (out == np.arange(WIDE)).all()
