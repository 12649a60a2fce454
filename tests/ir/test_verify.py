"""The verifier refuses every class of malformed kernel, and nothing but VerifyError comes out."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Loc, Op, Param, Region, Value, map_region, walk
from gristmill.ir.dtypes import Access, DType, MemType, Space, VectorType, bool_, f16, f32, i32, u32
from gristmill.ir.lang import (
    ReadWrite,
    barrier,
    kernel,
    local_id,
    subgroup_add,
    workgroup_array,
)
from gristmill.ir.ops.nv import WARP_SUMS
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.ir.verify import VerifyError, check_limits, shared_bytes, verify

BUFFER = MemType(Space.BUFFER, f32, None, Access.READWRITE)


def build(make: Callable[[Builder, Value], None], **facts: Any) -> Kernel:
    """A kernel of one buffer whose body `make` builds, up to its return."""
    builder = Builder()
    buffer = builder.value(BUFFER, "y")
    make(builder, buffer)
    builder.do("return")
    params = (Param("y", "buffer", f32, Access.READWRITE),)
    body = Region((buffer,), tuple(builder.ops))
    return replace(Kernel("k", "s", params, (8, 1, 1), i32, body), **facts)


def good(b: Builder, y: Value) -> None:
    """An if within a for within a while, an alloc and a switch."""
    b.emit("alloc", type=MemType(Space.WORKGROUP, f32, 4), **{"name": "t"}) if False else b.op(
        "alloc", (), {"name": "t"}, (MemType(Space.WORKGROUP, f32, 4),)
    )
    n = b.emit("const", type=i32, bits=3)
    one = b.emit("const", type=f32, bits=0x3F800000)
    with b.region(f32) as cond:
        b.do("condition", b.emit("lt", cond.args[0], one))
    with b.region(f32) as body:
        with b.region(i32, f32) as inner:
            c = b.emit("lt", inner.args[0], n)
            with b.region() as then:
                b.do("break", one)
            with b.region() as other:
                b.do("yield", inner.args[1])
            chosen = b.op("if", (c,), types=(f32,), regions=(then.region, other.region)).result
            b.do("store", y, inner.args[0], chosen)
            b.do("continue", chosen)
        total = b.op("for", (n, n, body.args[0]), types=(f32,), regions=(inner.region,)).result
        b.do("continue", total)
    b.op("while", (one,), types=(f32,), regions=(cond.region, body.region))
    arms = []
    for _ in range(2):
        with b.region() as arm:
            b.do("yield")
        arms.append(arm.region)
    b.op("switch", (n,), {"cases": (1,)}, regions=tuple(arms))


def edit(kernel: Kernel, name: str, change: Callable[[Op], Op]) -> Kernel:
    """The kernel with its ops called `name` changed."""
    return replace(
        kernel, body=map_region(kernel.body, lambda op: change(op) if op.name == name else op)
    )


def broken() -> dict[str, tuple[Kernel, str]]:
    k = build(good)
    const = next(op for op in walk(k.body) if op.name == "const")
    stray = Value(999, f32)

    def first(**facts: Any) -> Callable[[Op], Op]:
        return lambda op: replace(op, **facts)

    return {
        "name": (replace(k, name="a b"), "no name of a kernel"),
        "specialization": (replace(k, specialization=""), "no name of a specialization"),
        "workgroup": (replace(k, workgroup=(0, 1, 1)), "three positive sizes"),
        "workgroup bool": (replace(k, workgroup=(True, 1, 1)), "three positive sizes"),
        "index": (replace(k, index=f32), "index type is i32 or i64"),
        "subgroup": (replace(k, subgroup=3), "power of two"),
        "fast": (replace(k, fast=("wild",)), "fast is a sorted subset"),
        "sites": (replace(k, sites=(1,)), "fault sites are messages"),
        "grid": (replace(k, grid=(("count", "z"), 1, 1)), "the grid is not three expressions"),
        "params": (replace(k, params=()), "0 parameters, but the body takes 1"),
        "param name": (replace(k, params=(replace(k.params[0], name="1"),)), "no name of a parameter"),
        "param type": (replace(k, params=(replace(k.params[0], dtype=i32),)), "parameter y is buffer<i32"),
        "param kind": (replace(k, params=(replace(k.params[0], kind="odd"),)), "is of kind 'odd'"),
        "op name": (edit(k, "store", first(name="stor")), "no op is called 'stor'"),
        "operand count": (edit(k, "lt", lambda op: replace(op, operands=op.operands[:1])), "takes 2 operands"),
        "undefined": (edit(k, "store", lambda op: replace(op, operands=(*op.operands[:2], stray))), "before it is defined"),
        "operand type": (
            edit(k, "store", lambda op: replace(op, operands=(op.operands[0], Value(op.operands[1].id, u32), op.operands[2]))),
            "as u32, but it is i32",
        ),
        "out of scope": (_out_of_scope(k), "out of its region"),
        "defined twice": (edit(k, "if", lambda op: replace(op, results=(Value(const.result.id, f32),))), "defined twice"),
        "result type": (edit(k, "lt", lambda op: replace(op, results=(replace(op.result, type=i32),))), "gives bool, not i32"),
        "hint": (edit(k, "lt", lambda op: replace(op, results=(replace(op.result, hint="a b"),))), "hint 'a b'"),
        "const range": (edit(k, "const", first(attrs=(("bits", 1 << 40),))), "cannot have bits="),
        "missing attr": (edit(k, "const", first(attrs=())), "const lacks attribute 'bits'"),
        "unknown attr": (edit(k, "store", first(attrs=(("odd", 1),))), "store has no attribute 'odd'"),
        "attr order": (edit(k, "alloc", first(attrs=(("z", 1), ("a", 1)))), "must be sorted"),
        "case count": (edit(k, "switch", first(attrs=(("cases", (1, 2)),))), "cannot have cases="),
        "case twice": (edit(k, "switch", first(attrs=(("cases", (1, 1)),))), "cannot have cases="),
        "case type": (edit(k, "switch", first(attrs=(("cases", ("a",)),))), "cannot have cases="),
        "no terminator": (replace(k, body=replace(k.body, ops=k.body.ops[:-1])), "not in a terminator"),
        "empty": (replace(k, body=replace(k.body, ops=())), "is empty"),
        "early terminator": (replace(k, body=replace(k.body, ops=(k.body.ops[-1], *k.body.ops))), "not at its end"),
        "yield in body": (replace(k, body=replace(k.body, ops=(*k.body.ops[:-1], Op("yield")))), "cannot end in yield here"),
        "break outside": (replace(k, body=replace(k.body, ops=(*k.body.ops[:-1], Op("break")))), "cannot end in break here"),
        "yield count": (edit(k, "yield", first(operands=())), "yield gives nothing, expected f32"),
        "continue type": (edit(k, "continue", lambda op: replace(op, operands=())), "continue gives nothing"),
        "break count": (edit(k, "break", first(operands=())), "break gives nothing"),
        "condition type": (edit(k, "condition", first(operands=(k.body.args[0],))), "condition gives buffer"),
        "if regions": (edit(k, "if", lambda op: replace(op, regions=op.regions[:1])), "an if has 2 regions, not 1"),
        "if condition": (edit(k, "if", lambda op: replace(op, operands=(const.result,))), "condition of an if is bool"),
        "if arguments": (
            edit(k, "if", lambda op: replace(op, regions=(replace(op.regions[0], args=(stray,)), op.regions[1]))),
            "a region of if has arguments",
        ),
        "for bounds": (edit(k, "for", lambda op: replace(op, operands=op.operands[:1])), "a for takes its bounds"),
        "for results": (edit(k, "for", lambda op: replace(op, results=())), "starts with f32, but gives nothing"),
        "for arguments": (
            edit(k, "for", lambda op: replace(op, regions=(replace(op.regions[0], args=op.regions[0].args[:1]),))),
            "a region of a for takes i32, f32",
        ),
        "while regions": (edit(k, "while", lambda op: replace(op, regions=op.regions[:1])), "a while has 2 regions"),
        "plain with regions": (edit(k, "lt", lambda op: replace(op, regions=(Region(),))), "lt has regions"),
        "alloc inside": (_alloc_inside(k), "alloc stands inside a region"),
        "site": (build(_assert(5)), "cannot have site=5"),
        "subgroup unsized": (build(_subgroup), "without a subgroup size"),
        "subgroup multiple": (build(_subgroup, subgroup=16), "no multiple of the subgroup size"),
        "wrong python type": (replace(k, body=replace(k.body, ops=("x",))), "is no op"),
        "no tuple": (replace(k, params=None), "malformed"),
        "operand of none": (edit(k, "lt", first(operands=(None, None))), "malformed"),
        "unreachable": (_unreachable(k), "stands behind a if that control never leaves"),
        "memory carried": (_carried_memory(), "memory is not carried"),
    }  # fmt: skip


def _out_of_scope(k: Kernel) -> Kernel:
    inner = next(op for op in walk(k.body) if op.name == "lt" and op.operands[0].type == i32)
    use = Op("not", (inner.result,), (Value(998, bool_),))
    return replace(k, body=replace(k.body, ops=(*k.body.ops[:-1], use, k.body.ops[-1])))


def _alloc_inside(k: Kernel) -> Kernel:
    alloc = next(op for op in walk(k.body) if op.name == "alloc")
    moved = replace(alloc, results=(replace(alloc.result, id=997),))
    return edit(k, "if", lambda op: replace(
        op, regions=(op.regions[0], replace(op.regions[1], ops=(moved, *op.regions[1].ops)))))  # fmt: skip


def _assert(site: int) -> Callable[[Builder, Value], None]:
    return lambda b, y: b.do("assert", b.const(True, bool_), site=site) and None  # type: ignore[func-returns-value]


def _subgroup(b: Builder, y: Value) -> None:
    b.emit("subgroup_reduce", b.const(1, i32), kind="add")


def _unreachable(k: Kernel) -> Kernel:
    def change(op: Op) -> Op:
        leave = op.regions[0]
        return replace(op, regions=(leave, replace(leave)), results=())

    return edit(k, "if", change)


def _carried_memory() -> Kernel:
    def make(b: Builder, y: Value) -> None:
        n = b.const(1, i32)
        with b.region(i32, BUFFER) as body:
            b.do("continue", body.args[1])
        b.op("for", (n, n, y), types=(BUFFER,), regions=(body.region,))

    return build(make)


BROKEN = broken()
_BY_TABLE = {"operand count"}  # what only the op table tells


def test_the_good_kernel_is_accepted_and_round_trips() -> None:
    k = build(good)
    verify(k)
    verify(parse_kernel(print_kernel(k)))


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_kernels_are_refused(name: str) -> None:
    bad, message = BROKEN[name]
    if name == "memory carried":
        message = "is buffer"
    with pytest.raises(VerifyError) as caught:
        verify(bad)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("a", "b", "shape", "wrong"),
    [
        ("f16", "f16", "m16n8k16", ""),
        ("i8", "u8", "m16n8k32", ""),
        ("f16", "i8", "m16n8k16", "b='i8'"),
        ("f16", "bf16", "m16n8k16", "b='bf16'"),
        ("u8", "f16", "m16n8k32", "b='f16'"),
        ("i8", "i8", "m16n8k16", "shape='m16n8k16'"),
        ("bf16", "bf16", "m16n8k32", "shape='m16n8k32'"),
    ],
)
def test_products_of_a_subgroup_are_of_types_and_a_depth_that_go_together(
    a: str, b: str, shape: str, wrong: str
) -> None:
    def product(make: Builder, y: Value) -> None:
        def words(t: DType, n: int) -> Value:
            return make.emit("vector", *[make.const(0, t)] * n)

        operands = words(u32, 4), words(u32, 2), words(WARP_SUMS[a], 4)
        make.op("nv_warp_mma", operands, {"a": a, "b": b, "shape": shape})

    k = build(product, subgroup=32, workgroup=(32, 1, 1))
    if not wrong:
        return verify(k)
    with pytest.raises(VerifyError, match=f"nv_warp_mma cannot have {wrong}"):
        verify(k)


def test_narrow_buffers_may_be_seen_as_words() -> None:
    words = Value(0, MemType(Space.BUFFER, u32, None, Access.READWRITE))
    k = Kernel("k", "s", (Param("y", "buffer", f16, Access.WRITE),), (1, 1, 1), i32,
               Region((words,), (Op("return"),)))  # fmt: skip
    verify(k)
    with pytest.raises(VerifyError, match="parameter y is buffer<f32"):
        verify(replace(k, params=(replace(k.params[0], dtype=f32),)))


def test_random_damage_raises_nothing_but_verify_errors(rng: np.random.Generator) -> None:
    k = build(good)
    junk: list[Any] = [None, -1, "x", (), (1,), Value(3, f32), Region(), VectorType(f32, 4), 1.5]
    fields = ("name", "operands", "results", "attrs", "regions")
    names = [op.name for op in walk(k.body)]
    refused = 0
    for _ in range(400):
        target, field = names[rng.integers(len(names))], fields[rng.integers(len(fields))]
        value = junk[rng.integers(len(junk))]
        try:
            damaged = edit(k, target, lambda op: replace(op, **{field: value}))  # noqa: B023
        except TypeError:
            continue  # map_region itself walks the regions
        try:
            verify(damaged)
        except VerifyError:
            refused += 1
    assert refused > 200


@kernel(workgroup=lambda: 64)
def uses_shared(y: ReadWrite[f32]):
    a = workgroup_array(f32, (8, 8))
    b = workgroup_array(u32, 16)
    i = local_id(0)
    a[i // 8, i % 8] = y[i]
    if i < 16:
        b[i] = 1
    barrier()
    y[i] = a[i % 8, i // 8] + f32(b[i % 16])


def test_limits_of_a_target_name_the_largest_array() -> None:
    k = uses_shared.trace("s")
    assert shared_bytes(k) == 64 * 4 + 16 * 4
    check_limits(k, shared=320, invocations=64, size=(64, 1, 1))
    with pytest.raises(
        VerifyError, match="workgroup arrays of 320 bytes exceed the limit of 319"
    ) as caught:
        check_limits(k, shared=319)
    assert isinstance(caught.value.loc, Loc)
    with pytest.raises(VerifyError, match="64 invocations exceeds 32"):
        check_limits(k, invocations=32)
    with pytest.raises(VerifyError, match="exceeds"):
        check_limits(k, size=(32, 32, 32))


@kernel(workgroup=lambda: 24)
def odd_group(y: ReadWrite[i32], *, SUBGROUP: int = 16):
    y[local_id(0)] = subgroup_add(local_id(0))


@pytest.mark.parametrize("name", sorted(BROKEN.keys() - _BY_TABLE))
def test_all_but_inferred_types_is_checked_where_they_were_inferred(name: str) -> None:
    with pytest.raises(VerifyError):
        verify(BROKEN[name][0], inferred=True)


def test_types_that_were_inferred_are_not_inferred_again() -> None:
    for name in _BY_TABLE:
        verify(BROKEN[name][0], inferred=True)


def test_the_frontend_reports_what_the_verifier_finds() -> None:
    from gristmill.ir.lang import Diagnostic

    with pytest.raises(Diagnostic, match="no multiple of the subgroup size 16") as caught:
        odd_group.trace("s")
    assert "subgroup_add(local_id(0))" in str(caught.value)


def test_ops_are_frozen_in_fact_where_passes_are_verified() -> None:
    """Elsewhere type checkers see to it."""
    code = "from gristmill.ir.core import Op; Op('return').name = 'yield'"
    variables = {**os.environ, "GRISTMILL_VERIFY": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True)
    assert b"FrozenInstanceError" in done.stderr
