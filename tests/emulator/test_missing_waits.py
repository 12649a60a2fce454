"""Code that does not wait for what it uses is found, whatever it computes: on every path, for each
counter of each generation, and for the wait states that gfx9 leaves to software."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import CodeObject, MissingWait
from amdgpu_emulator.counters import Waits, waited
from amdgpu_emulator.elf import generation
from amdgpu_emulator.flow import reached
from amdgpu_emulator.hazards import Hazards
from amdgpu_emulator.one_wave import arch, decoded
from code_mutants import removable
from emulator_tools import FOOTER, GROUP, HEADER, compile_ir, launch


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    for name in ("llvm-mc", "llvm-objdump", "llc"):
        require(name)


def check(processor: str, *lines: str) -> None:
    """The checks that a program of these lines gets before it runs."""
    instructions = {i.address: i for i in decoded(processor, "\n".join([*lines, "s_endpgm"]))}
    instructions = {at: instructions[at] for at in sorted(reached(instructions, [0]))}
    Waits(arch(processor)).run(instructions, [0])
    if generation(processor) == 9:
        Hazards(arch(processor)).run(instructions, [0])


def needed(processor: str, *lines: str, wait: str, match: str) -> None:
    """It is right with the wait (each `WAIT` of the lines), and refused without."""
    check(processor, *(wait if line == "WAIT" else line for line in lines))
    with pytest.raises(MissingWait, match=match):
        check(processor, *(line for line in lines if line != "WAIT"))


USE, SCALAR_USE = "v_add_f32 v9, v1, v1", "s_add_u32 s9, s4, s4"
STORE9, STORE12 = "global_store_dword v[2:3], v1, off", "global_store_b32 v[2:3], v1, off"


@pytest.mark.parametrize(
    ("processor", "load", "use", "wait", "register", "counter"),
    [
        ("gfx942", "global_load_dword v1, v[2:3], off", USE, "s_waitcnt vmcnt(0)", "v1", "vmcnt"),
        ("gfx942", "scratch_load_dword v1, v2, off", USE, "s_waitcnt vmcnt(0)", "v1", "vmcnt"),
        ("gfx942", "ds_read_b32 v1, v2", USE, "s_waitcnt lgkmcnt(0)", "v1", "lgkmcnt"),
        ("gfx942", "ds_bpermute_b32 v1, v2, v3", USE, "s_waitcnt lgkmcnt(0)", "v1", "lgkmcnt"),
        ("gfx942", "s_load_dword s4, s[0:1], 0x0", SCALAR_USE, "s_waitcnt lgkmcnt(0)", "s4",
         "lgkmcnt"),
        ("gfx942", "flat_load_dword v1, v[2:3]", USE, "s_waitcnt vmcnt(0) lgkmcnt(0)", "v1",
         "vmcnt"),
        ("gfx942", "global_atomic_add v1, v[2:3], v4, off sc0", USE, "s_waitcnt vmcnt(0)", "v1",
         "vmcnt"),
        ("gfx1030", "global_load_dword v1, v[2:3], off", USE, "s_waitcnt vmcnt(0)", "v1", "vmcnt"),
        ("gfx1100", "global_load_b64 v[0:1], v[2:3], off", USE, "s_waitcnt vmcnt(0)", "v1",
         "vmcnt"),
        ("gfx1100", "ds_add_rtn_u32 v1, v2, v3", USE, "s_waitcnt lgkmcnt(0)", "v1", "lgkmcnt"),
        ("gfx1100", "s_load_b64 s[4:5], s[0:1], 0x0", SCALAR_USE, "s_waitcnt lgkmcnt(0)", "s4",
         "lgkmcnt"),
        ("gfx1201", "global_load_b32 v1, v[2:3], off", USE, "s_wait_loadcnt 0x0", "v1", "loadcnt"),
        ("gfx1201", "ds_load_b32 v1, v2", USE, "s_wait_dscnt 0x0", "v1", "dscnt"),
        ("gfx1201", "s_load_b32 s4, s[0:1], 0x0", SCALAR_USE, "s_wait_kmcnt 0x0", "s4", "kmcnt"),
        ("gfx1201", "flat_load_b32 v1, v[2:3]", USE, "s_wait_loadcnt_dscnt 0x0", "v1", "loadcnt"),
        ("gfx1201", "global_atomic_add_u32 v1, v[2:3], v4, off th:TH_ATOMIC_RETURN", USE,
         "s_wait_loadcnt 0x0", "v1", "loadcnt"),
    ],
)  # fmt: skip
def test_a_result_is_waited_for_in_its_counter(
    processor: str, load: str, use: str, wait: str, register: str, counter: str
) -> None:
    match = rf"{register} is read without a wait for {counter} 0: `\w+ .*` at 0x0 may still write"
    needed(processor, load, "WAIT", use, wait=wait, match=match)
    overwritten = {"v1": "v_mov_b32 v1, 0", "s4": "s_mov_b32 s4, 0"}[register]
    needed(processor, load, "WAIT", overwritten, wait=wait, match=f"{register} is overwritten")


def test_a_wait_for_another_counter_does_not_help() -> None:
    with pytest.raises(MissingWait, match="v1 is read without a wait for dscnt 0"):
        check("gfx1201", "ds_load_b32 v1, v2", "s_wait_loadcnt 0x0", "s_wait_kmcnt 0x0", USE)


def test_operations_of_one_kind_are_done_in_turn() -> None:
    two = ("global_load_dword v1, v[2:3], off", "global_load_dword v4, v[2:3], off")
    needed("gfx942", *two, "WAIT", USE, wait="s_waitcnt vmcnt(1)", match="vmcnt 1")
    with pytest.raises(MissingWait, match="v1 is read without a wait for vmcnt 1"):
        check("gfx942", *two, "s_waitcnt vmcnt(2)", USE)
    with pytest.raises(MissingWait, match="v4 is read without a wait for vmcnt 0"):
        check("gfx942", *two, "s_waitcnt vmcnt(1)", "v_mov_b32 v9, v4")
    # a store is counted with loads on gfx9, and apart from gfx10 on
    check("gfx942", two[0], STORE9.replace("v1", "v5"), "s_waitcnt vmcnt(1)", USE)
    with pytest.raises(MissingWait, match="vmcnt 0"):
        check("gfx1100", "global_load_b32 v1, v[2:3], off", STORE12.replace("v1", "v5"),
              "s_waitcnt vmcnt(1)", USE)  # fmt: skip


def test_scalar_loads_and_mixed_kinds_are_done_in_any_order() -> None:
    scalar = ("s_load_dword s4, s[0:1], 0x0", "s_load_dword s5, s[0:1], 0x4")
    with pytest.raises(MissingWait, match="s4 is read without a wait for lgkmcnt 0"):
        check("gfx942", *scalar, "s_waitcnt lgkmcnt(1)", SCALAR_USE)
    with pytest.raises(MissingWait, match="v1 is read without a wait for lgkmcnt 0"):
        check("gfx942", "ds_read_b32 v1, v2", scalar[0], "s_waitcnt lgkmcnt(1)", USE)
    # gfx12 counts them apart
    check("gfx1201", "ds_load_b32 v1, v2", "ds_load_b32 v4, v2", "s_load_b32 s4, s[0:1], 0x0",
          "s_wait_dscnt 0x1", USE)  # fmt: skip
    with pytest.raises(MissingWait, match="v1 is read without a wait for vmcnt 0"):
        check("gfx942", "flat_load_dword v1, v[2:3]", "global_load_dword v4, v[2:3], off",
              "s_waitcnt vmcnt(1) lgkmcnt(0)", USE)  # fmt: skip


def test_loads_overwrite_each_other_in_turn_until_gfx12_does_not() -> None:
    again = ("global_load_b32 v1, v[2:3], off", "global_load_b32 v1, v[4:5], off")
    check("gfx1100", *again)
    with pytest.raises(MissingWait, match="v1 is overwritten"):
        check("gfx1201", *again)
    with pytest.raises(MissingWait, match="v2 is read"):  # an address is read at once
        check("gfx1100", "global_load_b64 v[2:3], v[6:7], off", again[0])


def test_a_path_without_a_wait_is_found() -> None:
    load = "s_load_dword s4, s[0:1], 0x0"
    lines = (load, "s_cbranch_scc1 1", "WAIT", SCALAR_USE)
    with pytest.raises(MissingWait, match="s4"):
        check("gfx942", *(x.replace("WAIT", "s_waitcnt lgkmcnt(0)") for x in lines))
    check("gfx942", load, "s_waitcnt lgkmcnt(0)", "s_cbranch_scc1 0", SCALAR_USE)
    loop = ("v_mov_b32 v9, v1", "global_load_dword v1, v[2:3], off", "s_cbranch_scc1 -4")
    with pytest.raises(MissingWait, match="v1 is read"):  # in the second turn
        check("gfx942", *loop)
    check("gfx942", "s_waitcnt vmcnt(0)", *loop[:2], "s_cbranch_scc1 -5")


def test_what_needs_no_wait_gets_none() -> None:
    check("gfx1100", STORE12, "v_mov_b32 v1, 0", "v_mov_b32 v2, 0")
    check("gfx942", STORE9, "v_mov_b32 v1, 0")
    check("gfx1201", "global_load_b32 v1, v[2:3], off")  # nobody uses it
    check("gfx942", "s_load_dword s4, s[0:1], 0x0", "s_mov_b32 s0, 0")


@pytest.mark.parametrize(
    ("processor", "access", "wait", "barrier"),
    [
        ("gfx942", "ds_write_b32 v1, v2", "s_waitcnt lgkmcnt(0)", ["s_barrier"]),
        ("gfx1030", "ds_read_b32 v1, v2", "s_waitcnt lgkmcnt(0)", ["s_barrier"]),
        ("gfx1100", "ds_add_u32 v1, v2", "s_waitcnt lgkmcnt(0)", ["s_barrier"]),
        ("gfx1201", "ds_store_b32 v1, v2", "s_wait_dscnt 0x0",
         ["s_barrier_signal -1", "s_barrier_wait -1"]),
    ],
)  # fmt: skip
def test_a_barrier_waits_for_what_was_done_in_lds(
    processor: str, access: str, wait: str, barrier: list[str]
) -> None:
    needed(processor, access, "WAIT", *barrier, wait=wait, match="the barrier is reached without")


@pytest.mark.parametrize("exchange", ["ds_bpermute_b32 v1, v2, v3", "ds_swizzle_b32 v1, v2"])
def test_an_exchange_between_lanes_is_none_of_a_barrier(exchange: str) -> None:
    check("gfx1100", exchange, "s_barrier")
    check("gfx1201", exchange, "s_barrier_signal -1", "s_barrier_wait -1")
    with pytest.raises(MissingWait, match="v1 is read without"):
        check("gfx1100", exchange, "s_barrier", USE)


def test_a_wait_for_stores_before_a_barrier_may_be_of_a_loop_that_ends_there() -> None:
    lines = (STORE12, "s_waitcnt_vscnt null, 0x0", "s_barrier", "s_endpgm")
    instructions = {i.address: i for i in decoded("gfx1100", "\n".join(lines))}
    Waits(arch("gfx1100"), paired=False).run(instructions, [0])
    with pytest.raises(MissingWait, match="nothing invalidates"):
        Waits(arch("gfx1100")).run(instructions, [0])


def test_an_invalidation_belongs_to_the_barrier_before_it() -> None:
    last = ("s_waitcnt_vscnt null, 0x0", "s_barrier", "buffer_gl0_inv")
    check("gfx1100", STORE12, "s_barrier", *last)  # the first one orders no buffers
    with pytest.raises(MissingWait, match="reached without a wait for vscnt 0"):
        check("gfx1100", STORE12, *last[1:])


MFMA = "v_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3]"
OLD_MFMA = "v_mfma_f32_16x16x16f16 a[0:3], v[4:5], v[6:7], a[0:3]"


@pytest.mark.parametrize(
    ("processor", "first", "second", "states"),
    [
        ("gfx942", "v_mov_b32 v4, 0", MFMA, 2),
        ("gfx942", MFMA, "v_add_f32 v9, v3, v3", 7),
        ("gfx950", MFMA, "v_add_f32 v9, v3, v3", 8),
        ("gfx90a", MFMA.replace("16_f16", "16f16"), "v_add_f32 v9, v3, v3", 11),
        ("gfx942", MFMA, "global_store_dword v[10:11], v0, off", 7),
        ("gfx942", MFMA, "v_mov_b32 v2, 0", 7),
        ("gfx942", MFMA, "v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[6:7], 0", 7),
        ("gfx942", MFMA, "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[6:7], v[2:5]", 5),
        ("gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[0:15]",
         "v_mov_b32 v20, v0", 11),
        ("gfx942", "v_mfma_f32_32x32x2_f32 v[0:15], v16, v17, v[0:15]", "v_mov_b32 v20, v0", 18),
        ("gfx90a", "v_mfma_f64_16x16x4f64 a[0:7], v[0:1], v[2:3], a[0:7]",
         "global_store_dword v[10:11], a0, off", 18),
        ("gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], v[20:35]",
         "v_mov_b32 v20, 0", 7),
        ("gfx908", OLD_MFMA, "v_accvgpr_read_b32 v0, a2", 10),
        ("gfx908", OLD_MFMA, "v_accvgpr_write_b32 a2, v0", 7),
        ("gfx908", "v_accvgpr_write_b32 a1, v9", OLD_MFMA, 1),
        ("gfx908", "v_mov_b32 v4, 0", OLD_MFMA, 2),
        ("gfx942", "v_dot4_i32_i8 v0, v1, v2, v3", "v_mov_b32 v9, v0", 3),
        ("gfx906", "v_readfirstlane_b32 s0, v1", "global_load_dword v2, v3, s[0:1]", 5),
        ("gfx906", "v_readfirstlane_b32 s0, v1", "v_readlane_b32 s2, v2, s0", 4),
        ("gfx906", "v_cmp_eq_u32 vcc, v0, v1", "v_div_fmas_f32 v2, v3, v4, v5", 4),
        ("gfx906", "v_mov_b32 v0, 0", "v_mov_b32_dpp v1, v0 row_shl:1 row_mask:0xf bank_mask:0xf",
         2),
        ("gfx942", "v_rcp_f32 v0, v1", "v_mul_f32 v2, v0, v0", 1),
        ("gfx942", "v_readfirstlane_b32 s0, v1", "v_mov_b32 v2, s0", 2),
        ("gfx906", "global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32 v5, 0", 1),
        ("gfx942", "global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32 v5, 0", 2),
        ("gfx906", "s_mov_b32 m0, 0", "s_movrels_b32 s0, s1", 1),
    ],
)  # fmt: skip
def test_wait_states_that_software_inserts(
    processor: str, first: str, second: str, states: int
) -> None:
    check(processor, first, *["s_nop 0"] * states, second)
    with pytest.raises(MissingWait, match=rf"used {states - 1} wait states after .*takes {states}"):
        check(processor, first, *["s_nop 0"] * (states - 1), second)


def test_sums_of_the_same_registers_follow_each_other_at_once() -> None:
    check("gfx942", MFMA, MFMA)
    check("gfx908", OLD_MFMA, OLD_MFMA)


def test_a_nop_of_several_wait_states_counts_as_many() -> None:
    check("gfx942", MFMA, "s_nop 6", "v_mov_b32 v9, v0")
    with pytest.raises(MissingWait, match="used 6 wait states"):
        check("gfx942", MFMA, "s_nop 5", "v_mov_b32 v9, v0")


# What LLVM put there


LOADED = (
    HEADER
    + """
define amdgpu_kernel void @loaded(ptr addrspace(1) noalias readonly %in,
    ptr addrspace(1) noalias %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %w = add i32 %v, 1
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %w, ptr addrspace(1) %q
  ret void
}
"""
    + FOOTER.format(size=GROUP, extra="")
)


@pytest.mark.parametrize("processor", ["gfx942", "gfx1100", "gfx1201"])
def test_a_dispatch_without_a_wait_names_the_kernel_and_the_instruction(
    processor: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = compile_ir(LOADED, processor)
    x, out = np.arange(GROUP, dtype=np.int32), np.zeros(GROUP, np.int32)
    launch(data, "loaded", (GROUP, 1, 1), (GROUP, 1, 1), [x, out], rng)
    assert (out == x + 1).all()
    code = CodeObject.read(data)
    vector = {"gfx942": "vmcnt", "gfx1100": "vmcnt", "gfx1201": "loadcnt"}[processor]
    (mutant,) = removable(code, lambda i: vector in waited(i, generation(processor)))
    monkeypatch.setattr(CodeObject, "read", lambda data: mutant)
    mutant._programs = {}
    with pytest.raises(MissingWait, match=rf"kernel loaded: v\d+ is read .*{vector} 0.*at 0x.*add"):
        launch(data, "loaded", (GROUP, 1, 1), (GROUP, 1, 1), [x, out], rng)
