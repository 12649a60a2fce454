"""Every kernel that ships computes its reference on the model, in any order of its threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir.abi import evaluate
from gristmill.ir.core import Kernel
from gristmill.kernels import families
from gristmill.kernels.family import compare
from gristmill_build import config, options, plan
from ptx_model.host import Model
from ptx_tools import ROOT, shipped

SETTINGS = config.load(ROOT)
# What this target builds; `test_ptx_nv` runs the kernels for sm_90a alone.
STEPS = plan.plan(options.choose({"target": "ptx-sm_80"}, SETTINGS), SETTINGS).traces
NAMES = sorted({step.row.kernel for step in STEPS})
WITH_SUBGROUPS = ("softmax", "matmul", "gather", "histogram", "topk", "scan_blocks")


@pytest.fixture(autouse=True)
def gcc(require: Callable[..., None]) -> None:
    require("gcc")


def judge(model: Model, k: Kernel, rng: np.random.Generator) -> None:
    """Run all inputs of a kernel's family, each in another order of threads."""
    family, constexprs = families()[k.name], dict(k.constexprs)
    dtypes = {p.name: p.dtype for p in k.params}
    for case, args in enumerate(family.inputs(rng, constexprs)):
        expected = family.reference(args, constexprs)
        grid = grid_of(k, args)
        if 0 in grid:
            continue  # the runtime launches nothing
        faults = model.run(list(args.values()), grid, seed=int(rng.integers(1 << 32)))
        assert not faults, [k.sites[n] for n in faults]
        for name, want in expected.items():
            found = compare(args[name], want, dtypes[name])
            place = f"{k.specialization}, case {case}: {name}[{found.first_wrong}]"
            assert found.ok, f"{place} is off by {found.error}"


def grid_of(k: Kernel, args: dict[str, object]) -> tuple[int, int, int]:
    counts = {p.name: np.asarray(args[p.name]).size for p in k.params if p.is_memory}
    scalars = {p.name: args[p.name] for p in k.params if not p.is_memory}
    x, y, z = (evaluate(e, counts, scalars) for e in k.grid)
    return x, y, z


@pytest.fixture(scope="module")
def kernels() -> list[Kernel]:
    return [k for _, k in shipped("ptx-sm_80")]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_kernel_computes_its_reference(
    name: str, kernels: list[Kernel], rng: np.random.Generator
) -> None:
    found = [k for k in kernels if k.name == name]
    assert found
    for k in found:
        judge(Model(k), k, rng)


def test_kernels_for_the_oldest_architecture_compute_their_references(
    kernels: list[Kernel], rng: np.random.Generator
) -> None:
    """With bounds checks, too."""
    for k in kernels:
        if k.name in WITH_SUBGROUPS:
            judge(Model(k, "sm_75", checks=True), k, rng)
