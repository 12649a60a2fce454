"""Subgroup ops of every size give on every cpu level what the interpreter gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cpu_runner import Artifact
from gristmill.ir import interp
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, Value
from gristmill.ir.dtypes import DTYPES, Access, DType, MemType, Space, bool_, f32, i32, u32, u64

GROUPS = 2


def ops(b: Builder, t: DType, size: int, value: Value, lane: Value, vote: Value) -> Iterator[Value]:
    """Every subgroup op on a value, with fixed and computed lanes."""
    kinds = ["add", "mul", "min", "max"] + ([] if t.is_float else ["and", "or", "xor"])
    for kind in kinds:
        yield b.emit("subgroup_reduce", value, kind=kind)
        for inclusive in (True, False):
            yield b.emit("subgroup_scan", value, kind=kind, inclusive=inclusive)
    for name in ("", "_xor", "_up", "_down"):
        yield b.emit(f"subgroup_shuffle{name}", value, lane)
        for n in (1, 3, size - 1, size):
            yield b.emit(f"subgroup_shuffle{name}", value, b.const(n, i32))
    yield b.emit("subgroup_broadcast", value, b.const(size // 2, i32))
    ballot = u64 if size == 64 else u32
    one, zero = b.const(1, t), b.const(0, t)
    if t in (u32, u64) and ballot == t:
        yield b.emit("subgroup_ballot", vote, type=ballot)
    for flag in ("subgroup_any", "subgroup_all"):
        yield b.emit("select", b.emit(flag, vote), one, zero)
    yield b.emit("select", b.emit("subgroup_elect"), one, zero)


def kernel_of(t: DType, size: int) -> tuple[Kernel, int]:
    """out[case * invocations + i] = case of in[i], lanes[i], votes[i]."""
    b = Builder()
    kinds = [(t, Access.READ), (i32, Access.READ), (bool_, Access.READ), (t, Access.WRITE)]
    params = tuple(Param(f"p{n}", "buffer", d, a) for n, (d, a) in enumerate(kinds))
    args = [b.value(MemType(Space.BUFFER, d, None, a), f"p{n}") for n, (d, a) in enumerate(kinds)]
    i = b.emit("global_id", type=i32, dim=0)
    value, lane, vote = (b.emit("load", a, i) for a in args[:3])
    count = 0
    for result in ops(b, t, size, value, lane, vote):
        at = b.emit("add", i, b.const(count * 2 * size * GROUPS, i32))
        b.do("store", args[3], at, result)
        count += 1
    b.do("return")
    body = Region(tuple(args), tuple(b.ops))
    return Kernel("subgroups", str(t), params, (2 * size, 1, 1), i32, body, subgroup=size), count


@pytest.mark.parametrize("size", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("name", ["i32", "u32", "u64", "f32", "f64", "i8", "f16"])
def test_subgroup_ops_equal_the_interpreter(
    name: str, size: int, x86: str, rng: np.random.Generator
) -> None:
    compare(DTYPES[name], size, x86, rng)


@pytest.mark.parametrize("name", ["u32", "f32"])
def test_subgroup_ops_equal_the_interpreter_on_aarch64(
    name: str, require: Any, rng: np.random.Generator
) -> None:
    import cpu_runner

    if reason := cpu_runner.missing("aarch64"):
        require("qemu", reason)
    compare(DTYPES[name], int(rng.choice([4, 8, 32])), "aarch64", rng)


def compare(t: DType, size: int, arch: str, rng: np.random.Generator) -> None:
    kernel, count = kernel_of(t, size)
    n = 2 * size * GROUPS
    # Sums and products of these are exact in every order.
    values = rng.choice([1, 1, 1, -1 if t.is_float or t.is_signed else 1, 2], n).astype(t.storage)
    if size > 8:
        values = np.where(rng.random(n) < 8 / size, values, 1).astype(t.storage)
    args = [values, rng.integers(-3, 2 * size, n).astype(np.int32), rng.random(n) < 0.5]
    expected, got = (np.zeros(count * n, t.storage) for _ in range(2))
    interp.run(kernel, [*args, expected], (GROUPS, 1, 1))
    Artifact(kernel, arch).run([*args, got], (GROUPS, 1, 1))
    wrong = np.flatnonzero(got != expected)
    assert not len(wrong), (
        f"case {wrong[0] // n}, invocation {wrong[0] % n}: {got[wrong[0]]} {expected[wrong[0]]}"
    )


def test_reduction_of_nan_and_infinity(x86: str) -> None:
    kernel, count = kernel_of(f32, 8)
    values = np.array([np.nan, 1, -np.inf, 3, np.nan, np.inf, -1, 0] * 4, np.float32)
    args = [values, np.zeros(32, np.int32), np.zeros(32, bool)]
    expected, got = (np.zeros(count * 32, np.float32) for _ in range(2))
    interp.run(kernel, [*args, expected], (GROUPS, 1, 1))
    Artifact(kernel, x86).run([*args, got], (GROUPS, 1, 1))
    assert np.array_equal(got, expected, equal_nan=True)
