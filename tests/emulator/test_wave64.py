"""Whole kernels of gfx9 in waves of 64: ids, lanes, branches, wide integers, indexed registers.

LLVM chooses the instructions: work-item ids in three registers or packed in one, v_add_co and
v_addc, DPP across rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import CodeObject, Deadlock
from emulator_tools import launch
from wave64_tools import BARRIER, POINTERS, PROCESSORS, compiled


@pytest.fixture(autouse=True)
def _tools(require: Callable[..., None]) -> None:
    require("llc")


@pytest.fixture(params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> str:
    return request.param


def test_ids_of_three_dimensions(processor: str, rng: np.random.Generator) -> None:
    body = """
  %y = call i32 @llvm.amdgcn.workitem.id.y()
  %z = call i32 @llvm.amdgcn.workitem.id.z()
  %gy = call i32 @llvm.amdgcn.workgroup.id.y()
  %gz = call i32 @llvm.amdgcn.workgroup.id.z()
  %t1 = mul i32 %y, 16
  %t2 = mul i32 %z, 64
  %t3 = add i32 %thread, %t1
  %local = add i32 %t3, %t2
  %g1 = mul i32 %gy, 3
  %g2 = mul i32 %gz, 6
  %g3 = add i32 %group, %g1
  %linear = add i32 %g3, %g2
  %g4 = mul i32 %linear, 256
  %at = add i32 %g4, %local
  %qo = getelementptr i32, ptr addrspace(1) %out, i32 %at
  %v1 = shl i32 %z, 8
  %v2 = shl i32 %y, 4
  %v3 = or i32 %v1, %v2
  %v4 = or i32 %v3, %thread
  %v5 = shl i32 %linear, 16
  %v = or i32 %v4, %v5
  store i32 %v, ptr addrspace(1) %qo
  ret void
"""
    out = np.zeros(12 * 256, np.int32)
    data = compiled(processor, body, POINTERS)
    launch(data, "k", (48, 8, 8), (16, 4, 4), [out.copy(), out], rng)
    group, i = np.divmod(np.arange(12 * 256), 256)
    np.testing.assert_array_equal(out, group << 16 | i // 64 << 8 | i // 16 % 4 << 4 | i % 16)


def test_a_barrier_that_some_waves_skip(rng: np.random.Generator) -> None:
    body = f"""
  %some = icmp ult i32 %thread, 128
  br i1 %some, label %wait, label %spin
wait:
  {BARRIER}
  br label %end
spin:
  {BARRIER}
  {BARRIER}
  br label %end
end:
  ret void
"""
    data = compiled("gfx942", body, POINTERS)
    out = np.zeros(4, np.int32)
    with pytest.raises(Deadlock):
        launch(data, "k", (256, 1, 1), (256, 1, 1), [out.copy(), out], rng)


def test_lanes_of_a_wave(processor: str, rng: np.random.Generator) -> None:
    """A sum by DPP as LLVM's atomic optimiser makes it, ballot, lane number, bpermute."""
    steps, last = [], "%x"
    controls = [(0x111, 15, 15), (0x112, 15, 15), (0x114, 15, 15), (0x118, 15, 15)]
    for k, (control, rows, banks) in enumerate([*controls, (0x142, 10, 15), (0x143, 12, 15)]):
        steps.append(
            f"  %d{k} = call i32 @llvm.amdgcn.update.dpp.i32(i32 0, i32 {last}, i32 {control},"
            f" i32 {rows}, i32 {banks}, i1 false)\n  %s{k} = add i32 {last}, %d{k}"
        )
        last = f"%s{k}"
    body = f"""
  %qa = getelementptr i32, ptr addrspace(1) %a, i64 %index
  %x = load i32, ptr addrspace(1) %qa
{chr(10).join(steps)}
  %total = call i32 @llvm.amdgcn.readlane.i32(i32 {last}, i32 63)
  %big = icmp sgt i32 %x, 20
  %mask = call i64 @llvm.amdgcn.ballot.i64(i1 %big)
  %lo = trunc i64 %mask to i32
  %m2 = lshr i64 %mask, 32
  %hi = trunc i64 %m2 to i32
  %c1 = call i32 @llvm.amdgcn.mbcnt.lo(i32 %lo, i32 0)
  %below = call i32 @llvm.amdgcn.mbcnt.hi(i32 %hi, i32 %c1)
  %n1 = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)
  %lane = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %n1)
  %rev = sub i32 63, %lane
  %addr = shl i32 %rev, 2
  %other = call i32 @llvm.amdgcn.ds.bpermute(i32 %addr, i32 %x)
  %o4 = shl i32 %index32, 2
  %q0 = getelementptr i32, ptr addrspace(1) %out, i32 %o4
  store i32 {last}, ptr addrspace(1) %q0
  %q1 = getelementptr i32, ptr addrspace(1) %q0, i32 1
  store i32 %total, ptr addrspace(1) %q1
  %q2 = getelementptr i32, ptr addrspace(1) %q0, i32 2
  store i32 %below, ptr addrspace(1) %q2
  %q3 = getelementptr i32, ptr addrspace(1) %q0, i32 3
  store i32 %other, ptr addrspace(1) %q3
  ret void
"""
    data = compiled(processor, body, POINTERS)
    x, out = rng.integers(-99, 99, 512, dtype=np.int32), np.zeros((512, 4), np.int32)
    launch(data, "k", (512, 1, 1), (256, 1, 1), [x, out], rng)
    waves, got = x.reshape(8, 64), out.reshape(8, 64, 4)
    np.testing.assert_array_equal(got[..., 0], waves.cumsum(axis=1))
    np.testing.assert_array_equal(got[..., 1], np.repeat(waves.sum(axis=1)[:, None], 64, 1))
    big = waves > 20
    np.testing.assert_array_equal(got[..., 2], big.cumsum(axis=1) - big)
    np.testing.assert_array_equal(got[..., 3], waves[:, ::-1])


def test_wide_integers_and_branches(processor: str, rng: np.random.Generator) -> None:
    """64-bit products, sums and division; loops that lanes leave one by one; a switch."""
    body = """
  %qa = getelementptr i64, ptr addrspace(1) %a, i64 %index
  %x = load i64, ptr addrspace(1) %qa
  br label %loop
loop:
  %v = phi i64 [%x, %entry], [%next, %again]
  %n = phi i64 [0, %entry], [%n1, %again]
  %one = icmp ule i64 %v, 1
  br i1 %one, label %done, label %again
again:
  %odd = trunc i64 %v to i1
  %half = lshr i64 %v, 1
  %t = mul i64 %v, 3
  %t1 = add i64 %t, 1
  %next = select i1 %odd, i64 %t1, i64 %half
  %n1 = add i64 %n, 1
  br label %loop
done:
  %m = mul i64 %x, 1000000007
  %q = add i64 %n, 1
  %d = udiv i64 %m, %q
  %low = trunc i64 %n to i32
  %three = and i32 %low, 3
  switch i32 %three, label %other [i32 0, label %zero i32 2, label %two]
zero:
  br label %end
two:
  %neg = sub i64 0, %d
  br label %end
other:
  %sum = add i64 %d, %n
  br label %end
end:
  %r = phi i64 [%d, %zero], [%neg, %two], [%sum, %other]
  %qo = getelementptr i64, ptr addrspace(1) %out, i64 %index
  store i64 %r, ptr addrspace(1) %qo
  ret void
"""
    data = compiled(processor, body, POINTERS)
    x, out = rng.integers(1, 3000, 512).astype(np.int64), np.zeros(512, np.int64)
    launch(data, "k", (512, 1, 1), (256, 1, 1), [x, out], rng)
    wanted = []
    for value in x.tolist():
        v, n = value, 0
        while v > 1:
            v, n = (3 * v + 1 if v % 2 else v // 2), n + 1
        d = value * 1000000007 // (n + 1)
        wanted.append({0: d, 2: -d}.get(n % 4, d + n))
    assert out.tolist() == wanted


@pytest.mark.parametrize("processor", ["gfx906", "gfx90a", "gfx942"])
def test_registers_counted_from_an_index(processor: str, rng: np.random.Generator) -> None:
    """An element of a vector in registers, by a number that the workgroup's waves differ in."""
    body = """
  %w = lshr i32 %thread, 6
  %u = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %w)
  %n1 = mul i32 %u, 5
  %n = and i32 %n1, 15
  %q = getelementptr <16 x i32>, ptr addrspace(1) %a, i64 %index
  %v = load <16 x i32>, ptr addrspace(1) %q
  %x = extractelement <16 x i32> %v, i32 %n
  %t1 = add i32 %n1, 3
  %t = and i32 %t1, 15
  %w2 = insertelement <16 x i32> %v, i32 %thread, i32 %t
  %y = add <16 x i32> %w2, splat (i32 1)
  %qo = getelementptr <16 x i32>, ptr addrspace(1) %out, i64 %index
  store <16 x i32> %y, ptr addrspace(1) %qo
  %qx = getelementptr i32, ptr addrspace(1) %picked, i64 %index
  store i32 %x, ptr addrspace(1) %qx
  ret void
"""
    data = compiled(processor, body, POINTERS + ", ptr addrspace(1) noalias %picked")
    assert any(
        i.mnemonic == "s_set_gpr_idx_on" for i in CodeObject.read(data).instructions.values()
    )
    x = rng.integers(0, 1000, (512, 16), dtype=np.int32)
    out, picked = np.zeros_like(x), np.zeros(512, np.int32)
    launch(data, "k", (512, 1, 1), (256, 1, 1), [x, out, picked], rng)
    i = np.arange(512)
    n = i % 256 // 64 * 5
    np.testing.assert_array_equal(picked, x[i, n % 16])
    wanted = x.copy()
    wanted[i, (n + 3) % 16] = i % 256
    np.testing.assert_array_equal(out, wanted + 1)
