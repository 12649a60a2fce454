"""Matrix times vector as tuned for NVIDIA: several vectors on their way, teams of a subgroup."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir import abi
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.gemv import FAMILIES, gemv
from ptx_model.host import Model

ARCH = "sm_90a"
(FAMILY,) = FAMILIES
WIDE: dict[str, Any] = {"T": "f16", "SUBGROUP": 32, "VEC": 8, "EARLY": True}
VARIANTS: tuple[dict[str, Any], ...] = (
    {"BLOCK": 128, "DEEP": 4, "ROWS": 2},
    {"BLOCK": 128, "DEEP": 7},
    {"BLOCK": 256, "DEEP": 4, "ROWS": 2},
    {"BLOCK": 32, "TEAMS": 4, "DEEP": 4},
)


def full(constexprs: dict[str, Any]) -> dict[str, Any]:
    return {name: d for name, (_, d) in gemv.constexprs.items()} | WIDE | constexprs


@pytest.mark.parametrize("constexprs", VARIANTS, ids=str)
def test_products_behind_the_first_vectors_of_a_row_count(
    constexprs: dict[str, Any], rng: np.random.Generator, require: Callable[..., None]
) -> None:
    """Some rows take another turn of the loop, and some end amid vectors."""
    require("gcc")
    known = full(constexprs)
    traced = gemv.trace("s", **WIDE, **constexprs)
    model = Model(traced, ARCH)
    turns, whole = 0, set()
    for args in FAMILY.inputs(rng, known):
        vectors, rest = divmod(args["cols"], known["VEC"])
        whole.add((rest == 0, vectors > known["BLOCK"]))
        turns = max(turns, -(-vectors // (known["BLOCK"] * known["DEEP"])))
        assert traced.grid is not None
        grid = (abi.evaluate(traced.grid[0], {"y": args["y"].size}, {}), 1, 1)
        assert not model.run(list(args.values()), grid, seed=int(rng.integers(1 << 30)))
        assert compare(args["y"], FAMILY.reference(args, known)["y"], DTYPES["f32"]).ok
    assert turns > 1
    assert {(True, True), (False, True)} <= whole
