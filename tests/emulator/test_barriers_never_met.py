"""Barriers that a workgroup does not pass, in every way that code can miss them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import Deadlock, UnknownInstruction
from emulator_tools import FOOTER, HEADER, compile_ir, launch

WIDE = 256  # several waves in either size
PROCESSORS = ["gfx1100", "gfx1201", "gfx942"]
FRAME = (
    HEADER
    + """
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare void @llvm.amdgcn.s.barrier()
define amdgpu_kernel void @meet(ptr addrspace(1) noalias %out) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %v = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %t)
  %low = icmp ult i32 %v, 64
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
BODY
  ret void
}
"""
    + FOOTER.format(size=WIDE, extra="")
)
BARRIER = """fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire"""
# The first waves take one way, the others another, and each has a barrier.
WAYS = f"""
  br i1 %low, label %one, label %two
one:
  store volatile i32 1, ptr addrspace(1) %q
  {BARRIER}
  store volatile i32 2, ptr addrspace(1) %q
  br label %end
two:
  store volatile i32 3, ptr addrspace(1) %q
  MORE
  br label %end
end:
"""


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("llc")


def run(body: str, processor: str, rng: np.random.Generator) -> np.ndarray:
    out = np.zeros(WIDE, np.int32)
    data = compile_ir(FRAME.replace("BODY", body), processor)
    launch(data, "meet", (WIDE, 1, 1), (WIDE, 1, 1), [out], rng)
    return out


@pytest.mark.parametrize("processor", PROCESSORS)
def test_waves_wait_at_different_barriers(processor: str, rng: np.random.Generator) -> None:
    """Hardware would let them pass; no kernel of the language comes to that."""
    body = WAYS.replace("MORE", BARRIER)
    with pytest.raises(
        Deadlock, match=r"kernel meet: waves of one workgroup wait at different barriers: before 0x"
    ):
        run(body, processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("turns", ["", BARRIER + "\n  " + BARRIER])
def test_waves_meet_unequally_often(processor: str, turns: str, rng: np.random.Generator) -> None:
    words = "wait at different barriers" if turns else "that the other . ended without reaching"
    with pytest.raises(Deadlock, match=words):
        run(WAYS.replace("MORE", turns), processor, rng)


def asm(text: str) -> str:
    return f'call void asm sideeffect "{text}", ""()'


def test_a_wave_waits_for_what_it_has_not_signalled(rng: np.random.Generator) -> None:
    whole = asm("s_barrier_signal -1") + "\n  " + asm("s_barrier_wait -1")
    run(whole, "gfx1201", rng)
    body = f"""
  br i1 %low, label %signal, label %both
signal:
  {asm("s_barrier_signal -1")}
  br label %both
both:
  {asm("s_barrier_wait -1")}
"""
    with pytest.raises(Deadlock, match=r"8 of 8 waves .* that 6 of them have not signalled"):
        run(body, "gfx1201", rng)


def test_work_between_signal_and_wait_goes_on(rng: np.random.Generator) -> None:
    store = "store volatile i32 7, ptr addrspace(1) %q"
    body = "\n  ".join([asm("s_barrier_signal -1"), store, asm("s_barrier_wait -1")])
    assert (run(body, "gfx1201", rng) == 7).all()


@pytest.mark.parametrize(
    "text",
    ["s_barrier_signal 1", "s_barrier_wait 1", "s_barrier_signal_isfirst -1", "s_barrier_leave"],
)
def test_named_barriers_are_unknown(text: str, rng: np.random.Generator) -> None:
    """LLVM makes them of intrinsics alone that the compiler here does not use."""
    with pytest.raises(UnknownInstruction, match=f"kernel meet: .*{text.split()[0]}"):
        run(asm(text), "gfx1201", rng)
