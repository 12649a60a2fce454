"""Subgroup operations of every type agree with the interpreter, at the size of each device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from elementwise import NUMBERS, opened, samples
from gristmill.backends.compile import CompileError
from gristmill.backends.spirv.emit import emit_lowered, validate
from gristmill.ir import interp
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, Value
from gristmill.ir.dtypes import (
    COMPUTED,
    DTYPES,
    Access,
    DType,
    MemType,
    Space,
    VectorType,
    bool_,
    i32,
    u32,
)
from vulkan_driver import Driver

GROUPS = 4


def kernel_of(
    size: int | None,
    t: DType,
    out: DType,
    name: str,
    attrs: dict[str, Any],
    lane: DType | None = None,
    lanes: int = 1,
    workgroup: tuple[int, int, int] = (64, 1, 1),
) -> Kernel:
    """out[i] = op(x[i]) or op(x[i], lane[i]) with i linear over the grid's workgroups."""
    b = Builder()
    types = [t, *([lane] if lane else []), out]
    params, args = [], []
    for n, d in enumerate(types):
        access = Access.WRITE if n == len(types) - 1 else Access.READ
        params.append(Param(f"p{n}", "buffer", d, access))
        args.append(b.value(MemType(Space.BUFFER, d, None, access), f"p{n}"))
    count = workgroup[0] * workgroup[1] * workgroup[2]
    base = b.emit("mul", b.emit("group_id", type=i32, dim=0), b.const(count, i32))
    i = b.emit("add", base, b.emit("local_linear_id", type=i32))
    shape = {"lanes": lanes} if lanes > 1 else {}
    values: list[Value] = [b.emit("load", args[0], i, **shape)]
    if lane:
        values.append(b.emit("load", args[1], i))
    wanted = (u32,) if name == "subgroup_ballot" else None
    value = b.op(name, values if name != "subgroup_elect" else (), attrs, wanted).result
    b.do("store", args[-1], i, value)
    b.do("return")
    body = Region(tuple(args), tuple(b.ops))
    return Kernel(name, "test", tuple(params), workgroup, i32, body, subgroup=size)


def agree(driver: Driver, kernel: Kernel, inputs: list[np.ndarray], tolerance: float = 0.0) -> bool:
    emitted = emit_lowered(kernel, "vulkan1.1")
    validate(emitted.blob, "vulkan1.1", kernel)
    if driver.lacks(emitted):
        return False
    out = kernel.params[-1].dtype
    expected, actual = (np.zeros(len(inputs[0]), out.storage) for _ in range(2))
    interp.run(kernel, [*inputs, expected], (GROUPS, 1, 1))
    driver.launch(kernel, emitted, [*inputs, actual], (GROUPS, 1, 1))
    a, b = opened(actual, out), opened(expected, out)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=0, err_msg=f"{kernel.body.ops[-3]}")
    return True


def whole(t: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values whose sums and products are exact."""
    if not t.is_float:
        return samples(t, count, rng)
    values = rng.integers(1, 3, count).astype(np.float32)
    if t.name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(t.storage)


def reductions() -> Iterator[tuple[DType, str]]:
    for t in NUMBERS:
        for kind in ("add", "mul", "min", "max"):
            yield t, kind
        if t.is_int:
            for kind in ("and", "or", "xor"):
                yield t, kind


def test_reductions_and_scans(driver: Driver, rng: np.random.Generator) -> None:
    ran = 0
    for t, kind in reductions():
        for mode in ("reduce", "inclusive", "exclusive"):
            name = "subgroup_reduce" if mode == "reduce" else "subgroup_scan"
            attrs: dict[str, Any] = {"kind": kind}
            if mode != "reduce":
                attrs["inclusive"] = mode == "inclusive"
            lanes = int(rng.choice([1, 1, 2, 4]))
            kernel = kernel_of(driver.subgroup, t, t, name, attrs, lanes=lanes)
            exact = kind in ("min", "max") or t.is_int
            data = (samples if exact else whole)(t, 64 * GROUPS * lanes, rng)
            ran += agree(driver, kernel, [data])
    assert ran >= 30


def test_values_move_between_lanes(driver: Driver, rng: np.random.Generator) -> None:
    ran, size = 0, driver.subgroup
    for t in COMPUTED.values():
        for name in ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down"):
            for lane in (i32, u32):
                kernel = kernel_of(size, t, t, f"subgroup_{name}", {}, lane)
                data = samples(t, 64 * GROUPS, rng)
                places = rng.integers(0, 2 * size, 64 * GROUPS).astype(lane.storage)
                ran += agree(driver, kernel, [data, places])
        kernel = kernel_of(size, t, t, "subgroup_broadcast", {}, i32)
        places = np.repeat(rng.integers(0, size, 64 * GROUPS // size), size).astype(np.int32)
        ran += agree(driver, kernel, [samples(t, 64 * GROUPS, rng), places])
    assert ran >= 27


def test_broadcast_of_a_constant_lane_needs_no_shuffle(driver: Driver) -> None:
    b = Builder()
    buffers = [MemType(Space.BUFFER, i32, None, a) for a in (Access.READ, Access.WRITE)]
    args = [b.value(t, n) for t, n in zip(buffers, "xy", strict=True)]
    i = b.emit("global_id", type=i32, dim=0)
    value = b.emit("subgroup_broadcast", b.emit("load", args[0], i), b.const(3, i32))
    b.do("store", args[1], i, value)
    b.do("return")
    params = tuple(Param(n, "buffer", i32, t.access) for t, n in zip(buffers, "xy", strict=True))
    body = Region(tuple(args), tuple(b.ops))
    kernel = Kernel("b", "t", params, (64, 1, 1), i32, body, subgroup=driver.subgroup)
    emitted = emit_lowered(kernel, "vulkan1.1")
    assert emitted.requires == ("subgroup_ballot",)
    x, y = np.arange(64 * GROUPS, dtype=np.int32), np.zeros(64 * GROUPS, np.int32)
    driver.launch(kernel, emitted, [x, y], (GROUPS, 1, 1))
    np.testing.assert_array_equal(y, x // driver.subgroup * driver.subgroup + 3)


def test_votes(driver: Driver, rng: np.random.Generator) -> None:
    for name, out in (("ballot", u32), ("any", bool_), ("all", bool_)):
        for share in (0.05, 0.5, 0.95):
            kernel = vote_on_sign(driver.subgroup, f"subgroup_{name}", out)
            data = np.where(rng.random(64 * GROUPS) < share, -1, 1).astype(np.int32)
            assert agree(driver, kernel, [data])


def vote_on_sign(size: int, name: str, out: DType) -> Kernel:
    """out[i] = op(x[i] < 0), as u32."""
    b = Builder()
    types = [
        MemType(Space.BUFFER, i32, None, Access.READ),
        MemType(Space.BUFFER, u32, None, Access.WRITE),
    ]
    args = [b.value(t, n) for t, n in zip(types, "xy", strict=True)]
    i = b.emit("global_id", type=i32, dim=0)
    vote = b.emit("lt", b.emit("load", args[0], i), b.const(0, i32))
    result = b.op(name, (vote,), {}, (out,)).result
    b.do("store", args[1], i, result if out == u32 else b.emit("convert", result, type=u32))
    b.do("return")
    params = tuple(
        Param(n, "buffer", t.element, t.access) for n, t in zip("xy", types, strict=True)
    )
    body = Region(tuple(args), tuple(b.ops))
    return Kernel("vote", "t", params, (64, 1, 1), i32, body, subgroup=size)


@pytest.mark.parametrize("workgroup", [(64, 1, 1), (8, 8, 1), (4, 4, 4), (2, 16, 2), (1, 8, 8)])
@pytest.mark.parametrize("name", ["subgroup_id", "subgroup_lane", "num_subgroups"])
def test_ids_follow_the_linear_order(
    driver: Driver, workgroup: tuple[int, int, int], name: str
) -> None:
    """Also where the hardware's own numbers are used, next to a subgroup operation."""
    for with_op in (False, True):
        b = Builder()
        t = MemType(Space.BUFFER, i32, None, Access.WRITE)
        out = b.value(t, "out")
        lane = b.emit(name, type=i32)
        if with_op:
            other = b.emit("subgroup_shuffle_xor", lane, b.const(1, i32))
            lane = b.emit("subgroup_shuffle_xor", other, b.const(1, i32))
        b.do("store", out, b.emit("local_linear_id", type=i32), lane)
        b.do("return")
        param = Param("out", "buffer", i32, Access.WRITE)
        body = Region((out,), tuple(b.ops))
        kernel = Kernel("ids", "t", (param,), workgroup, i32, body, subgroup=driver.subgroup)
        emitted = emit_lowered(kernel, "vulkan1.3")
        validate(emitted.blob, "vulkan1.3", kernel)
        if not with_op:
            assert emitted.requires == ()
        actual = np.zeros(64, np.int32)
        driver.launch(kernel, emitted, [actual], (1, 1, 1))
        linear = np.arange(64)
        size = driver.subgroup
        wanted = {
            "subgroup_id": linear // size,
            "subgroup_lane": linear % size,
            "num_subgroups": np.full(64, 64 // size),
        }[name]
        np.testing.assert_array_equal(actual, wanted)


def test_a_subgroup_op_without_a_size_is_refused() -> None:
    kernel = kernel_of(None, i32, i32, "subgroup_reduce", {"kind": "min"})
    with pytest.raises(CompileError, match="SUBGROUP"):
        emit_lowered(kernel, "vulkan1.1")


def test_vectors_travel_whole(driver: Driver, rng: np.random.Generator) -> None:
    for t in (i32, DTYPES["f32"], DTYPES["i64"], DTYPES["f64"], DTYPES["u8"]):
        kernel = kernel_of(driver.subgroup, t, t, "subgroup_shuffle", {}, i32, lanes=4)
        assert isinstance(kernel.body.ops[-2].operands[2].type, VectorType)
        places = rng.integers(0, driver.subgroup, 64 * GROUPS).astype(np.int32)
        emitted = emit_lowered(kernel, "vulkan1.1")
        if driver.lacks(emitted):
            continue
        data = samples(t, 256 * GROUPS, rng)
        expected, actual = (np.zeros(256 * GROUPS, t.storage) for _ in range(2))
        interp.run(kernel, [data, places, expected], (GROUPS, 1, 1))
        driver.launch(kernel, emitted, [data, places, actual], (GROUPS, 1, 1))
        np.testing.assert_array_equal(actual, expected)
