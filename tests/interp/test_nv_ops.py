"""The interpreter runs mbarriers, bulk copies, products by warpgroups, roles and grid barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.interp import ProblemKind, run
from gristmill.ir.lang import *
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.nv_attention_prefill import FAMILIES as ATTENTION
from gristmill.kernels.nv_attention_prefill import nv_attention_prefill
from gristmill.kernels.nv_matmul import FAMILIES, nv_matmul
from nv_kernels import (
    PRODUCTS,
    box_case,
    box_moved,
    bulk_case,
    bulk_turned,
    grid_sums,
    in_turns,
    passed_case,
    passed_on,
    product,
    product_case,
    shared_case,
    shared_out,
    turns_case,
)
from warp_products import WARP_PRODUCTS, warp_case, warp_product

ONE = (1, 1, 1)


def kinds(kernel: Any, args: list[Any], grid: tuple[int, int, int] = ONE) -> set[ProblemKind]:
    return {p.kind for p in run(kernel, args, grid).problems}


def check(kernel: Any, case: Any, grid: tuple[int, int, int] = ONE) -> None:
    args, expected = case
    assert run(kernel, args, grid).problems == ()
    for n, values in expected.items():
        assert (args[n] == values).all()


def test_all_workgroups_wait_at_the_barrier_of_the_grid(rng: np.random.Generator) -> None:
    x = rng.integers(0, 100, 640).astype(np.int32)
    part, y = np.zeros(10, np.int32), np.zeros(10, np.int32)
    assert run(grid_sums.trace("s"), [x, part, y], (10, 1, 1)).problems == ()
    assert (y == (x.sum() * 10 + 45)).all()


@pytest.mark.parametrize("t", ["f32", "i8", "u16", "f64"])
def test_bulk_copies(t: str, rng: np.random.Generator) -> None:
    check(bulk_turned.trace("s", T=t), bulk_case(rng, t))


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("swizzle", "wide"), [(0, 64), (32, 16), (64, 32), (128, 64)])
def test_boxes_move_and_what_lies_outside_is_zero(
    rank: int, swizzle: int, wide: int, rng: np.random.Generator
) -> None:
    traced = box_moved.trace("s", RANK=rank, SWIZZLE=swizzle, WIDE=wide)
    check(traced, box_case(rng, "f16", rank, 8, wide))


@pytest.mark.parametrize("constexprs", PRODUCTS, ids=str)
def test_products_of_warpgroups(constexprs: dict[str, Any], rng: np.random.Generator) -> None:
    case, _ = product_case(rng, constexprs)
    check(product.trace("s", **constexprs), case)


@pytest.mark.parametrize("constexprs", WARP_PRODUCTS, ids=str)
def test_products_of_subgroups(constexprs: dict[str, Any], rng: np.random.Generator) -> None:
    check(warp_product.trace("s", **constexprs), warp_case(rng, constexprs), (3, 1, 1))


@pytest.mark.parametrize(
    "constexprs", [{}, {"T": "bf16", "B_COLUMNS": True}, {"BN": 64, "GROUPS": 2}, {"CLUSTER": 2}]
)
def test_the_matrix_product_agrees_with_its_reference(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    (family,) = FAMILIES
    full = {name: default for name, (_, default) in nv_matmul.constexprs.items()} | constexprs
    traced = nv_matmul.trace("s", **constexprs)
    for args in family.inputs(rng, full):
        size = full["CLUSTER"]
        tiles = -(-args["m"] // (128 * size)) * -(-args["n"] // full["BN"])
        grid = (min(tiles, full["GROUPS"] // size) * size, 1, 1)
        report = run(traced, list(args.values()), grid)
        assert report.problems == ()
        expected = family.reference(args, full)["c"]
        assert compare(args["c"], expected, DTYPES[str(full["OUT"])]).ok


def test_workgroups_of_a_cluster_copy_to_each_other(rng: np.random.Generator) -> None:
    check(shared_out.trace("s"), shared_case(rng), (4, 1, 1))


def test_attention_agrees_with_its_reference(rng: np.random.Generator) -> None:
    """Warpgroups of one arm go on together here: they take no turns."""
    constexprs = {"PINGPONG": False, "BK": 64, "GROUPS": 2}
    full = {n: default for n, (_, default) in nv_attention_prefill.constexprs.items()} | constexprs
    traced = nv_attention_prefill.trace("s", **constexprs)
    prompts = list(ATTENTION[0].inputs(rng, full))
    for args in (prompts[2], prompts[6], prompts[7]):
        tiles = -(-args["most"] // 128) * args["heads"] * len(args["lengths"])
        assert run(traced, list(args.values()), (min(tiles, 2), 1, 1)).problems == ()
        expected = ATTENTION[0].reference(args, full)["y"]
        assert compare(args["y"], expected, DTYPES["f16"]).ok


def test_roles_wait_for_each_other(rng: np.random.Generator) -> None:
    check(passed_on.trace("s"), passed_case(rng, 3), (3, 1, 1))


def test_who_arrives_at_a_named_barrier_goes_on(rng: np.random.Generator) -> None:
    check(in_turns.trace("s"), turns_case(rng))
    args, _ = turns_case(rng)
    assert ProblemKind.ENDLESS_WAIT in kinds(in_turns.trace("s", LOST=True), args)


def test_a_wait_that_nothing_ends_is_reported(rng: np.random.Generator) -> None:
    args, _ = passed_case(rng, 1)
    assert ProblemKind.ENDLESS_WAIT in kinds(passed_on.trace("s", LOST=True), args)


@kernel(workgroup=lambda: 32, grid=lambda: 1)
def wrong(x: Read[f32], y: Write[f32], *, WHAT: str = ""):
    tile = workgroup_array(f32, 64)
    ready = nv.mbarriers(1)
    if local_id(0) == 0:
        if WHAT != "uninitialised":
            nv.init(ready, 0, 1)
        nv.expect(ready, 0, 128)
        at = i32(x[0]) if WHAT == "misaligned" else 0
        count = 64 if WHAT == "outside" else 32
        nv.bulk_load(tile, at, x, 0, count, ready, 0)
        if WHAT == "twice":
            nv.arrive(ready, 0)
        if WHAT != "early":
            nv.wait(ready, 0, 0)
        y[0] = tile[0]
        if WHAT == "early":
            nv.wait(ready, 0, 0)
        if WHAT == "left":
            nv.bulk_store(y, 0, tile, 0, 32)
            nv.bulk_commit()


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("uninitialised", ProblemKind.MBARRIER),
        ("misaligned", ProblemKind.MISALIGNED),
        ("outside", ProblemKind.OUT_OF_BOUNDS),
        ("twice", ProblemKind.MBARRIER),
        ("early", ProblemKind.PENDING_COPY),
        ("left", ProblemKind.PENDING_COPY),
    ],
)
def test_what_is_wrong_with_copies_is_reported(what: str, kind: ProblemKind) -> None:
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    assert kind in kinds(wrong.trace("s", WHAT=what), [x, y])
    assert kinds(wrong.trace("s"), [x, y]) == set()
