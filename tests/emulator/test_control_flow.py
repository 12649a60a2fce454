"""Divergent branches, loops, calls, and the state of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulator_tools import FOOTER, GROUP, HEADER, Case, check_all, compile_ir, launch, module
from gristmill.backends.hsaco.link import link

Array = np.ndarray[Any, Any]
TARGETS = [("gfx1100", None), ("gfx1100", 64), ("gfx1201", None), ("gfx1201", 64), ("gfx942", None)]

COLLATZ = """
  %a1 = and i32 %a, 1023
  %start = add i32 %a1, 1
  br label %loop
loop:
  %n = phi i32 [%start, %0], [%next, %join]
  %steps = phi i32 [0, %0], [%more, %join]
  %one = icmp eq i32 %n, 1
  br i1 %one, label %done, label %body
body:
  %low = and i32 %n, 1
  %odd = icmp eq i32 %low, 1
  br i1 %odd, label %up, label %down
up:
  %x3 = mul i32 %n, 3
  %u = add i32 %x3, 1
  br label %join
down:
  %d = lshr i32 %n, 1
  br label %join
join:
  %next = phi i32 [%u, %up], [%d, %down]
  %more = add i32 %steps, 1
  br label %loop
done:
  %r = add i32 %steps, 0
"""
SWITCH = """
  %k = and i32 %a, 7
  switch i32 %k, label %other [i32 0, label %zero
    i32 1, label %one
    i32 5, label %five]
zero:
  %z = mul i32 %b, 3
  br label %end
one:
  %o = xor i32 %b, %a
  br label %end
five:
  %f = sub i32 0, %b
  br label %end
other:
  br label %end
end:
  %r = phi i32 [%z, %zero], [%o, %one], [%f, %five], [%k, %other]
"""


def collatz(x: Array) -> Array:
    found = []
    for value in x:
        n, steps = (int(value) & 1023) + 1, 0
        while n != 1:
            n, steps = (3 * n + 1 if n & 1 else n >> 1), steps + 1
        found.append(steps)
    return np.array(found)


def choose(x: Array, y: Array) -> Array:
    k = x & 7
    return np.select([k == 0, k == 1, k == 5], [y * 3, y ^ x, -y], k)


@pytest.mark.parametrize(("processor", "wave"), TARGETS)
def test_lanes_take_their_own_ways_and_meet_again(
    processor: str, wave: int | None, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    cases = [
        (Case("collatz", "i32", ("i32",), COLLATZ), collatz),
        (Case("choose", "i32", ("i32", "i32"), SWITCH), choose),
    ]
    check_all(compile_ir(module([c for c, _ in cases], wave=wave), processor), cases, rng)


CALL = (
    HEADER
    + """
@table = internal addrspace(4) constant [8 x i32] [i32 3, i32 1, i32 4, i32 1, i32 5, i32 9, i32 2,
  i32 6]
define internal i32 @helper(i32 %x, i32 %n) noinline {
  %p = getelementptr [8 x i32], ptr addrspace(4) @table, i32 0, i32 %n
  %v = load i32, ptr addrspace(4) %p
  %y = mul i32 %x, %v
  ret i32 %y
}
define amdgpu_kernel void @caller(ptr addrspace(1) noalias readonly %in,
    ptr addrspace(1) noalias %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %p
  %n = and i32 %v, 7
  %a = call i32 @helper(i32 %v, i32 %n)
  %m = and i32 %t, 7
  %r = call i32 @helper(i32 %a, i32 %m)
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %q
  ret void
}
"""
)


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_calls_and_constant_tables_work_in_a_linked_object(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    data = link(compile_ir(CALL + FOOTER.format(size=GROUP, extra=""), processor), ["caller"])
    x = rng.integers(0, 1000, GROUP).astype(np.int32)
    out = np.zeros_like(x)
    launch(data, "caller", (GROUP, 1, 1), (GROUP, 1, 1), [x, out], rng)
    table = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    assert (out == x * table[x & 7] * table[np.arange(GROUP) & 7]).all()


IDS = (
    HEADER
    + "".join(
        f"declare i32 @llvm.amdgcn.{kind}.id.{axis}()\n"
        for kind in ("workitem", "workgroup")
        for axis in "yz"
    )
    + """declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
define amdgpu_kernel void @ids(ptr addrspace(1) noalias %out, i32 %wide, i32 %high) #0 {
"""
    + "".join(
        f"  %{name}{axis} = call i32 @llvm.amdgcn.{kind}.id.{axis}()\n"
        for name, kind in (("t", "workitem"), ("g", "workgroup"))
        for axis in "xyz"
    )
    + """
  %p = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %gp = getelementptr i8, ptr addrspace(4) %p, i64 12
  %grid = load i32, ptr addrspace(4) %gp
  %x0 = mul i32 %gx, 4
  %x = add i32 %x0, %tx
  %y0 = mul i32 %gy, 3
  %y = add i32 %y0, %ty
  %z0 = mul i32 %gz, 2
  %z = add i32 %z0, %tz
  %a = mul i32 %z, %high
  %b = add i32 %a, %y
  %c = mul i32 %b, %wide
  %d = add i32 %c, %x
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %d
  %s = add i32 %d, %grid
  store i32 %s, ptr addrspace(1) %q
  ret void
}
"""
)


@pytest.mark.parametrize(
    "processor", ["gfx906", "gfx90a", "gfx1030", "gfx1100", "gfx1201", "gfx942"]
)
def test_ids_and_the_packet_are_those_of_the_launch(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    """Workgroups of 24 work-items: waves that are not full."""
    require("llc")
    data = compile_ir(IDS + FOOTER.format(size=24, extra=""), processor)
    out = np.zeros((6, 9, 20), np.int32)
    launch(data, "ids", (20, 9, 6), (4, 3, 2), [out, np.int32(20), np.int32(9)], rng)
    assert (out.ravel() == np.arange(out.size) + 20).all()


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_denormals_of_f32_vanish_where_the_kernel_says_so(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    case = Case("product", "float", ("float", "float"), "%r = fmul float %a, %b")
    flush = '"denormal-fp-math-f32"="preserve-sign,preserve-sign"'
    text = module([case]).replace('"uniform-work-group-size"', f'{flush} "uniform-work-group-size"')
    tiny = np.float32(2.0**-126)

    def flushed(x: Array) -> Array:
        return np.where(np.abs(x) < tiny, np.copysign(np.float32(0), x), x)

    check_all(
        compile_ir(text, processor), [(case, lambda x, y: flushed(flushed(x) * flushed(y)))], rng
    )
