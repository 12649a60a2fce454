"""Ways through a kernel that only variants of some GPUs take, on the interpreter: that they are
right, and that all parts of a tile or a group are written before they are read."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.dtypes import DTYPES
from gristmill.ir.interp import run
from gristmill.kernels.cache_append import cache_append
from gristmill.kernels.family import Args, compare, decode, encode
from gristmill.kernels.groupnorm import FAMILIES as GROUPS
from gristmill.kernels.groupnorm import groupnorm
from gristmill.kernels.matmul import identity, product_args
from gristmill.kernels.matmul_fragments import FAMILIES as PRODUCTS
from gristmill.kernels.matmul_fragments import matmul_fragments

SMALL = {"BM": 32, "BN": 32, "BK": 16, "WM": 16, "WN": 16, "SUBGROUP": 16}


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    "shape", [(64, 32, 48), (40, 36, 44), (33, 31, 50), (32, 33, 32), (1, 1, 1)], ids=str
)
def test_products_whose_next_tiles_wait_in_registers(
    name: str, columns: bool, shape: tuple[int, int, int]
) -> None:
    t = DTYPES[name]
    constexprs = {"T": t, "OUT": t, "B_COLUMNS": columns, "AHEAD": True, **SMALL}
    kernel = matmul_fragments.trace("test", **constexprs)
    args = product_args(np.random.default_rng(1), shape, t, t, columns)
    wanted = PRODUCTS[0].reference(args, {**constexprs, "EPILOGUE": identity})
    m, n, _ = shape
    report = run(kernel, list(args.values()), (-(-m // 32) * -(-n // 32), 1, 1))
    assert not report.problems
    assert compare(args["c"], wanted["c"], t).ok


@pytest.mark.parametrize(("channels", "pixels"), [(4, 64), (3, 128), (8, 192), (8, 200), (3, 35)])
def test_groups_that_are_copied_to_workgroup_memory(channels: int, pixels: int) -> None:
    """Also more than it has room for, and such as are no whole vectors."""
    t, rng = DTYPES["f16"], np.random.default_rng(2)
    constexprs = {"T": t, "BLOCK": 64, "SUBGROUP": 32, "VEC": 8, "KEEP": 3, "COPIED": True}
    kernel = groupnorm.trace("test", **constexprs)
    x = encode(rng.standard_normal((2, channels * 3, pixels)) + 3, t)
    of_channels = [encode(rng.standard_normal(channels * 3), t) for _ in range(2)]
    weight, bias = of_channels
    sizes = {"channels": channels, "pixels": pixels, "eps": 1e-5}
    args: Args = {"x": x, "weight": weight, "bias": bias, "y": np.zeros_like(x), **sizes}
    wanted = GROUPS[0].reference(args, constexprs)
    report = run(kernel, list(args.values()), (6, 1, 1))
    assert not report.problems
    assert compare(args["y"], wanted["y"], t).ok


@pytest.mark.parametrize("tokens", [1, 3, 4, 7, 8])
@pytest.mark.parametrize("each", [2, 4])
def test_tokens_of_a_cache_that_an_invocation_shares_all_come(tokens: int, each: int) -> None:
    t = DTYPES["f16"]
    rows = encode(np.arange(1.0, 1 + tokens * 16).reshape(tokens, 1, 16), t)
    caches = [np.zeros((2, 1, 8, 16), np.float16) for _ in range(2)]
    places = np.random.default_rng(tokens).permutation(16)[:tokens].astype(np.int32)
    kernel = cache_append.trace("test", VEC=8, EACH=each, BLOCK=4)
    table, sequences = np.array([[1, 0]], np.int32), np.zeros(tokens, np.int32)
    numbers = [1, 16, 8, 2, 1.0, 1.0]
    groups = -(-tokens * 16 // (4 * 8 * each))
    args = [rows, rows * 2, *caches, table, sequences, places, *numbers]
    report = run(kernel, args, (groups, 1, 1))
    assert not report.problems
    assert not report.faults
    found = decode(caches[0], t)[[1, 0]].reshape(16, 16)[places]
    np.testing.assert_array_equal(found, decode(rows, t).reshape(tokens, 16))
    assert np.count_nonzero(caches[1]) == tokens * 16
