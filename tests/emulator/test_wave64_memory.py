"""Memory of whole kernels of gfx9, in waves of 64: private, LDS, generic pointers, atomics.

LLVM chooses the instructions: scratch through a buffer resource on gfx906 to gfx90a and by scratch
instructions on gfx942.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import OutOfBounds, UnwrittenLds
from emulator_tools import compile_ir, launch
from wave64_tools import BARRIER, POINTERS, PROCESSORS, compiled, module


@pytest.fixture(autouse=True)
def _tools(require: Callable[..., None]) -> None:
    require("llc")


@pytest.fixture(params=PROCESSORS)
def processor(request: pytest.FixtureRequest) -> str:
    return request.param


def test_private_memory(processor: str, rng: np.random.Generator) -> None:
    """Each lane fills an array of words and bytes, then reads it where its data say."""
    body = """
  %p = alloca [400 x i32], align 16, addrspace(5)
  %b = alloca [400 x i8], align 4, addrspace(5)
  br label %fill
fill:
  %j = phi i32 [0, %entry], [%j1, %fill]
  %v = mul i32 %index32, %j
  %pj = getelementptr i32, ptr addrspace(5) %p, i32 %j
  store i32 %v, ptr addrspace(5) %pj
  %bj = getelementptr i8, ptr addrspace(5) %b, i32 %j
  %v8 = trunc i32 %v to i8
  store i8 %v8, ptr addrspace(5) %bj
  %j1 = add i32 %j, 1
  %more = icmp ult i32 %j1, 24
  br i1 %more, label %fill, label %read
read:
  %qa = getelementptr i32, ptr addrspace(1) %a, i64 %index
  %n = load i32, ptr addrspace(1) %qa
  %pn = getelementptr i32, ptr addrspace(5) %p, i32 %n
  %x = load i32, ptr addrspace(5) %pn
  %bn = getelementptr i8, ptr addrspace(5) %b, i32 %n
  %y8 = load i8, ptr addrspace(5) %bn
  %y = sext i8 %y8 to i32
  %r = sub i32 %x, %y
  %qo = getelementptr i32, ptr addrspace(1) %out, i64 %index
  store i32 %r, ptr addrspace(1) %qo
  ret void
"""
    data = compiled(processor, body, POINTERS)
    at, out = rng.integers(0, 24, 1024, dtype=np.int32), np.zeros(1024, np.int32)
    launch(data, "k", (1024, 1, 1), (256, 1, 1), [at, out], rng)
    value = np.arange(1024, dtype=np.int32) * at
    np.testing.assert_array_equal(out, value - value.astype(np.int8))
    far = np.full(256, 1 << 20, np.int32)
    with pytest.raises(OutOfBounds, match="scratch"):
        launch(data, "k", (256, 1, 1), (256, 1, 1), [far, out], rng)


def test_generic_pointers_reach_private_and_shared_memory(
    processor: str, rng: np.random.Generator
) -> None:
    body = """
  %p = alloca [4 x i32], align 16, addrspace(5)
  %p0 = addrspacecast ptr addrspace(5) %p to ptr
  %l = getelementptr i32, ptr addrspace(3) @lds, i32 %thread
  %l0 = addrspacecast ptr addrspace(3) %l to ptr
  store volatile i32 11, ptr %p0
  store volatile i32 %thread, ptr %l0
  %odd = trunc i32 %thread to i1
  br i1 %odd, label %one, label %two
one:
  %x = load volatile i32, ptr %p0
  br label %end
two:
  %y = load volatile i32, ptr %l0
  br label %end
end:
  %r = phi i32 [%x, %one], [%y, %two]
  %qo = getelementptr i32, ptr addrspace(1) %out, i64 %index
  store i32 %r, ptr addrspace(1) %qo
  ret void
"""
    out, i = np.zeros(256, np.int32), np.arange(256)
    data = compiled(processor, body, POINTERS)
    launch(data, "k", (256, 1, 1), (256, 1, 1), [out.copy(), out], rng)
    np.testing.assert_array_equal(out, np.where(i % 2, 11, i))


REDUCTION = """
  %qa = getelementptr i32, ptr addrspace(1) %a, i64 %index
  %x = load i32, ptr addrspace(1) %qa
  %l = getelementptr i32, ptr addrspace(3) @lds, i32 %thread
  store i32 %x, ptr addrspace(3) %l
  br label %loop
loop:
  %w = phi i32 [128, %entry], [%w2, %next]
  {barrier}
  %act = icmp ult i32 %thread, %w
  br i1 %act, label %add, label %next
add:
  %t2 = add i32 %thread, %w
  %l2 = getelementptr i32, ptr addrspace(3) @lds, i32 %t2
  %u = load i32, ptr addrspace(3) %l
  %v = load i32, ptr addrspace(3) %l2
  %s = add i32 %u, %v
  store i32 %s, ptr addrspace(3) %l
  br label %next
next:
  %w2 = lshr i32 %w, 1
  %more = icmp ugt i32 %w2, 0
  br i1 %more, label %loop, label %fin
fin:
  %zero = icmp eq i32 %thread, 0
  br i1 %zero, label %write, label %end
write:
  %r = load i32, ptr addrspace(3) %l
  %qo = getelementptr i32, ptr addrspace(1) %out, i32 %group
  store i32 %r, ptr addrspace(1) %qo
  br label %end
end:
  ret void
"""


def test_reduction_in_lds(processor: str, rng: np.random.Generator) -> None:
    data = compiled(processor, REDUCTION.format(barrier=BARRIER), POINTERS)
    x, out = rng.integers(-99, 99, 40 * 256, dtype=np.int32), np.zeros(40, np.int32)
    launch(data, "k", (40 * 256, 1, 1), (256, 1, 1), [x, out], rng)
    np.testing.assert_array_equal(out, x.reshape(40, 256).sum(axis=1))


def test_a_missing_barrier_shows(rng: np.random.Generator) -> None:
    data = compiled("gfx942", REDUCTION.format(barrier=""), POINTERS)
    x, out = np.ones(40 * 256, np.int32), np.zeros(40, np.int32)
    with pytest.raises(UnwrittenLds):
        launch(data, "k", (40 * 256, 1, 1), (256, 1, 1), [x, out], rng)


ATOMICS = [
    ("add", np.add, np.int32),
    ("sub", np.subtract, np.int64),
    ("max", np.maximum, np.int32),
    ("umin", np.minimum, np.uint64),
    ("xor", np.bitwise_xor, np.uint32),
]


@pytest.mark.parametrize(("name", "f", "dtype"), ATOMICS, ids=[a[0] for a in ATOMICS])
def test_atomics(
    processor: str, name: str, f: np.ufunc, dtype: type, rng: np.random.Generator
) -> None:
    """On one of sixteen global words, and on LDS, with and without their old values."""
    t = "i32" if np.dtype(dtype).itemsize == 4 else "i64"
    body = f"""
  %qa = getelementptr {t}, ptr addrspace(1) %a, i64 %index
  %x = load {t}, ptr addrspace(1) %qa
  %slot = and i32 %index32, 15
  %qo = getelementptr {t}, ptr addrspace(1) %out, i32 %slot
  %old = atomicrmw {name} ptr addrspace(1) %qo, {t} %x syncscope("agent") monotonic
  %zero = icmp eq i32 %thread, 0
  br i1 %zero, label %set, label %go
set:
  %start = getelementptr {t}, ptr addrspace(1) %out, i32 16
  %s = load {t}, ptr addrspace(1) %start
  store {t} %s, ptr addrspace(3) @lds
  br label %go
go:
  {BARRIER}
  %olds = atomicrmw {name} ptr addrspace(3) @lds, {t} %x syncscope("workgroup") monotonic
  {BARRIER}
  br i1 %zero, label %put, label %end
put:
  %r = load {t}, ptr addrspace(3) @lds
  %qr = getelementptr {t}, ptr addrspace(1) %out, i32 17
  store {t} %r, ptr addrspace(1) %qr
  br label %end
end:
  %qb = getelementptr {t}, ptr addrspace(1) %old_values, i64 %index
  store {t} %olds, ptr addrspace(1) %qb
  ret void
"""
    data = compiled(processor, body, POINTERS + ", ptr addrspace(1) noalias %old_values")
    x = rng.integers(0, 1000, 256).astype(dtype)
    out = rng.integers(0, 1000, 18).astype(dtype)
    wanted, olds = out.copy(), np.zeros(256, dtype)
    f.at(wanted, np.arange(256) % 16, x)
    wanted[17] = f.reduce(x, initial=wanted[16]) if name != "sub" else wanted[16] - x.sum()
    launch(data, "k", (256, 1, 1), (256, 1, 1), [x, out, olds], rng)
    np.testing.assert_array_equal(out, wanted)
    if name == "add":  # in whatever order, the old values are partial sums of different lanes
        assert len(np.unique(olds[x > 0])) >= (x > 0).sum()


@pytest.mark.parametrize("processor", ["gfx908", "gfx90a", "gfx942", "gfx950"])
def test_float_atomics(processor: str, rng: np.random.Generator) -> None:
    body = """
  %qa = getelementptr float, ptr addrspace(1) %a, i64 %index
  %x = load float, ptr addrspace(1) %qa
  %old = atomicrmw fadd ptr addrspace(1) %out, float %x syncscope("agent") monotonic,
    !amdgpu.no.fine.grained.memory !9, !amdgpu.no.remote.memory !9, !amdgpu.ignore.denormal.mode !9
  ret void
"""
    text = module(body, POINTERS) + "\n!9 = !{}\n"
    data = compile_ir(text, processor)
    x, out = rng.integers(0, 99, 1024).astype(np.float32), np.zeros(1, np.float32)
    launch(data, "k", (1024, 1, 1), (256, 1, 1), [x, out], rng)
    assert out[0] == x.sum()
