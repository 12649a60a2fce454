"""Attention of one token by `mma`, as PTX in the model of threads: every type of a cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.abi import evaluate
from gristmill.ir.lang import *
from gristmill.kernels.family import compare
from gristmill.kernels.nv_attention_decode import FAMILIES, nv_attention_decode
from ptx_model.host import Model

(FAMILY,) = FAMILIES


@pytest.mark.parametrize(
    "constexprs",
    [
        {"HEAD_DIM": 64, "WARPS": 2, "EARLY": True},
        {"T": bf16, "C": bf16, "WARPS": 1, "KEYS": 32},
        {"C": f8e4m3, "WARPS": 2, "KEYS": 32, "STAGES": 3},
        {"C": i8, "WARPS": 3},
    ],
    ids=str,
)
def test_the_threads_of_ptx_agree_with_the_reference(
    constexprs: dict[str, Any], rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    kernel = nv_attention_decode.trace("x", FAST=True, **constexprs)
    assert kernel.grid is not None
    model = Model(kernel, "sm_90a")
    for args in FAMILY.inputs(rng, dict(kernel.constexprs)):
        counts = {n: a.size for n, a in args.items() if isinstance(a, np.ndarray)}
        scalars = {n: a for n, a in args.items() if n not in counts}
        x, y, z = (evaluate(e, counts, scalars) for e in kernel.grid)
        values = [a.reshape(-1) if isinstance(a, np.ndarray) else a for a in args.values()]
        model.run(values, (x, y, z), seed=int(rng.integers(1 << 30)))
        wanted = FAMILY.reference(args, dict(kernel.constexprs))
        found = compare(args["y"], wanted["y"], kernel.params[6].dtype)
        assert found.ok, f"off by {found.error}, bound {found.bound}"
        assert not args["arrived"].any()
