"""What is wrong with a kernel shows, with the kernel and the instruction; mutations of one that is
right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amdgpu_emulator import (
    CodeObject,
    CodeObjectError,
    Deadlock,
    LdsRace,
    OutOfBounds,
    RunawayError,
    UnknownInstruction,
    UnwrittenLds,
)
from amdgpu_emulator import launch as launching
from amdgpu_emulator.lds import Lds
from emulator_tools import (
    BARRIER,
    FOOTER,
    GROUP,
    HEADER,
    PROCESSORS,
    WIDE,
    compile_ir,
    launch,
)

Array = np.ndarray[Any, Any]
# out[i] = in[the invocation's opposite of the same group], through LDS
REVERSE = (
    HEADER
    + """
declare void @llvm.amdgcn.s.barrier()
@cells = internal addrspace(3) global [256 x i32] poison, align 16
define amdgpu_kernel void @reverse(ptr addrspace(1) noalias readonly %in,
    ptr addrspace(1) noalias %out, i32 %skip) #0 {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %m = shl i32 %g, 8
  %i = add i32 %m, %t
  %i64 = zext i32 %i to i64
  %p = getelementptr i32, ptr addrspace(1) %in, i64 %i64
  %v = load i32, ptr addrspace(1) %p
  %c = getelementptr [256 x i32], ptr addrspace(3) @cells, i32 0, i32 %t
  store i32 %v, ptr addrspace(3) %c
  ;BEFORE
"""
    + BARRIER
    + """
  ;AFTER
  %o = sub i32 255, %t
  %d = getelementptr [256 x i32], ptr addrspace(3) @cells, i32 0, i32 %o
  %w = load i32, ptr addrspace(3) %d
  %q = getelementptr i32, ptr addrspace(1) %out, i64 %i64
  store i32 %w, ptr addrspace(1) %q
  ret void
}
"""
)
NOTES = FOOTER.format(size=WIDE, extra="")


def run(
    text: str, processor: str, rng: np.random.Generator, groups: int = 64
) -> tuple[Array, Array]:
    data = compile_ir(text + NOTES, processor)
    x = rng.integers(0, 1 << 31, WIDE * groups).astype(np.int32)
    out = np.zeros_like(x)
    launch(data, "reverse", (x.size, 1, 1), (WIDE, 1, 1), [x, out, np.int32(32)], rng)
    return x.reshape(-1, WIDE)[:, ::-1].ravel(), out


@pytest.mark.parametrize("processor", PROCESSORS)
def test_the_kernel_without_a_fault_is_right(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    wanted, out = run(REVERSE, processor, rng)
    assert (out == wanted).all()


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_missing_barrier_shows(processor: str, rng: np.random.Generator, require: Any) -> None:
    require("llc")
    with pytest.raises(UnwrittenLds, match=r"kernel reverse: .*ds_(load|read)"):
        run(REVERSE.replace(BARRIER, ""), processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_missing_second_barrier_is_a_race(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    """The cells are used again: whoever comes late reads the second values."""
    require("llc")
    again = (
        """
  %w1 = load i32, ptr addrspace(3) %d
  ;SECOND
  %flip = xor i32 %v, -1
  store i32 %flip, ptr addrspace(3) %c
"""
        + BARRIER
        + """
  %w2 = load i32, ptr addrspace(3) %d
  %w = add i32 %w1, %w2
"""
    )
    text = REVERSE.replace("%w = load i32, ptr addrspace(3) %d", again)
    _, out = run(text.replace(";SECOND", BARRIER), processor, rng)
    assert (out == -1).all()
    with pytest.raises(LdsRace, match=r"kernel reverse: a race in LDS: .*ds_.*, at 0x.*: ds_"):
        run(text, processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_reading_a_cell_that_nothing_wrote_shows(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    text = REVERSE.replace(
        "store i32 %v, ptr addrspace(3) %c",
        """
  %odd = and i32 %t, 1
  %is = icmp eq i32 %odd, 0
  br i1 %is, label %put, label %go
put:
  store i32 %v, ptr addrspace(3) %c
  br label %go
go:""",
    )
    with pytest.raises(UnwrittenLds, match="4 bytes at "):
        run(text, processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_barrier_that_some_waves_skip_is_a_deadlock(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    text = REVERSE.replace(
        ";BEFORE",
        """
  %first = icmp ult i32 %t, 128
  br i1 %first, label %meet, label %leave
leave:
  ret void
meet:""",
    )
    with pytest.raises(Deadlock, match=r"kernel reverse: (2 of 4|4 of 8)"):
        run(text, processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("distance", [1, 1 << 40])
def test_a_store_behind_the_end_shows(
    processor: str, distance: int, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    text = REVERSE.replace(
        "%q = getelementptr i32, ptr addrspace(1) %out, i64 %i64",
        f"%far = add i64 %i64, {distance}\n"
        "  %q = getelementptr i32, ptr addrspace(1) %out, i64 %far",
    )
    with pytest.raises(OutOfBounds, match=r"kernel reverse: store .*global_store"):
        run(text, processor, rng)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_accesses_outside_of_lds_show(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    text = REVERSE.replace("%o = sub i32 255, %t", "%o = sub i32 %skip, %t")
    with pytest.raises(OutOfBounds, match=r"LDS access of 4 bytes at \d+: the workgroup has 1024"):
        run(text, processor, rng)


def test_a_store_to_memory_that_is_only_to_be_read_shows(
    rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    text = REVERSE.replace("noalias readonly %in", "%in").replace(
        "store i32 %w, ptr addrspace(1) %q", "store i32 %w, ptr addrspace(1) %p"
    )
    data = compile_ir(text + NOTES, "gfx1100")
    x = np.zeros(WIDE, np.int32)
    with pytest.raises(OutOfBounds, match="read-only"):
        launch(data, "reverse", (WIDE, 1, 1), (WIDE, 1, 1), [x, x.copy(), np.int32(0)], rng,
               read_only=(0,))  # fmt: skip


def test_an_instruction_without_semantics_is_named(rng: np.random.Generator, require: Any) -> None:
    require("llc")
    text = REVERSE.replace(";AFTER", 'call void asm sideeffect "s_ttracedata", ""()')
    with pytest.raises(UnknownInstruction, match=r"kernel reverse: .*s_ttracedata"):
        run(text, "gfx1100", rng)


def test_a_modifier_without_semantics_is_named(rng: np.random.Generator, require: Any) -> None:
    require("llc")
    text = REVERSE.replace(
        ";AFTER", 'call void asm sideeffect "ds_store_b32 $0, $0 gds", "v"(i32 %t)'
    )
    with pytest.raises(UnknownInstruction, match=r"kernel reverse: .*'gds'"):
        run(text, "gfx1100", rng)


def test_a_loop_that_does_not_end_shows(
    rng: np.random.Generator, require: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("llc")
    monkeypatch.setattr(launching, "LIMIT", 50_000)
    text = REVERSE.replace(
        ";AFTER",
        """
  br label %spin
spin:
  %x = load volatile i32, ptr addrspace(3) %c
  %stay = icmp ne i32 %x, 1234567890
  br i1 %stay, label %spin, label %after
after:""",
    )
    with pytest.raises(RunawayError, match="kernel reverse"):
        run(text, "gfx1100", rng, groups=1)


def test_waves_may_wait_for_each_other_through_memory(
    rng: np.random.Generator, require: Any
) -> None:
    """All but one wave spin until that one has written; whichever runs first."""
    require("llc")
    text = (
        HEADER
        + """
define amdgpu_kernel void @relay(ptr addrspace(1) %flag, ptr addrspace(1) noalias %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %last = icmp eq i32 %g, 7
  br i1 %last, label %write, label %wait
write:
  store atomic i32 9, ptr addrspace(1) %flag syncscope("agent") release, align 4
  br label %end
wait:
  %x = load atomic i32, ptr addrspace(1) %flag syncscope("agent") acquire, align 4
  %got = icmp eq i32 %x, 9
  br i1 %got, label %end, label %wait
end:
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %g
  store i32 1, ptr addrspace(1) %q
  ret void
}
"""
    )
    data = compile_ir(text + FOOTER.format(size=GROUP, extra=""), "gfx1100")
    flag, out = np.zeros(1, np.int32), np.zeros(8, np.int32)
    launch(data, "relay", (8 * GROUP, 1, 1), (GROUP, 1, 1), [flag, out], rng)
    assert (out == 1).all()


@pytest.mark.parametrize("cut", [0, 3, 40, 64, 200])
def test_bytes_that_are_no_code_object_are_refused(cut: int, require: Any) -> None:
    require("llc")
    data = compile_ir(REVERSE + NOTES, "gfx1100")
    with pytest.raises(CodeObjectError):
        CodeObject.read(data[:cut])


def test_a_kernel_that_is_not_there_is_named(rng: np.random.Generator, require: Any) -> None:
    require("llc")
    data = compile_ir(REVERSE + NOTES, "gfx1100")
    with pytest.raises(CodeObjectError, match=r"no kernel 'other'.*reverse"):
        launch(data, "other", (WIDE, 1, 1), (WIDE, 1, 1), [], rng)
    with pytest.raises(CodeObjectError, match="whole workgroups"):
        launch(data, "reverse", (WIDE + 1, 1, 1), (WIDE, 1, 1), [], rng)


@pytest.mark.parametrize("at", [-1, 17, 20])
def test_the_first_byte_beside_a_workgroups_lds_shows(at: int) -> None:
    lds, group, zero = Lds(3, 20), np.array([1]), np.zeros((1, 1), np.uint32)
    lds.store(group, np.array([16]), 4, zero)
    where, words = np.array([at]), f"LDS access of 4 bytes at {at}: the workgroup has 20 bytes"
    for access in (
        lambda: lds.load(group, where, 4),
        lambda: lds.store(group, where, 4, zero),
        lambda: lds.atomic(group, where, 4),
    ):
        with pytest.raises(OutOfBounds, match=words):
            access()
