"""Every kernel that ships computes its reference, as its code object runs emulated.

On the baselines `tests/hsa/test_hsa_emulated.py` shows as much, through the runtime; here are all
families of processors, for `scons fuzz`, and waves of 64 where those of 32 are usual.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.ir.abi import evaluate
from gristmill.ir.core import Kernel
from gristmill.kernels import families
from gristmill.kernels.family import compare
from gristmill_build import config, options, plan
from hsaco_tools import BASELINES, ROOT, Emulated, shipped

SETTINGS = config.load(ROOT)
STEPS = plan.plan(options.choose({"target": "hsaco"}, SETTINGS), SETTINGS).traces
NAMES = sorted({step.row.kernel for step in STEPS})
OTHERS = (
    *("gfx906", "gfx908", "gfx90a", "gfx950", "gfx1030"),
    *("gfx9-generic", "gfx9-4-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"),
)


def judge(run: Emulated, k: Kernel, rng: np.random.Generator) -> None:
    """Run all inputs of a kernel's family."""
    family, constexprs = families()[k.name], dict(k.constexprs)
    dtypes = {p.name: p.dtype for p in k.params}
    for case, args in enumerate(family.inputs(rng, constexprs)):
        expected = family.reference(args, constexprs)
        counts = {p.name: np.asarray(args[p.name]).size for p in k.params if p.is_memory}
        scalars = {p.name: args[p.name] for p in k.params if not p.is_memory}
        x, y, z = (evaluate(e, counts, scalars) for e in k.grid)
        if 0 in (x, y, z):
            continue  # the runtime launches nothing
        faults = run.run(list(args.values()), (x, y, z), rng)
        assert not faults, [k.sites[n] for n in faults]
        for name, want in expected.items():
            found = compare(args[name], want, dtypes[name])
            place = f"{k.specialization}, case {case}: {name}[{found.first_wrong}]"
            assert found.ok, f"{place} is off by {found.error}"


@pytest.mark.slow
@pytest.mark.parametrize("arch", [*BASELINES, *OTHERS])
@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_kernel_computes_its_reference(
    name: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    found = [k for _, k in shipped(f"hsaco-{arch}") if k.name == name]
    assert found
    for k in found:
        judge(Emulated(k, arch), k, rng)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
@pytest.mark.parametrize("name", ["gemv", "reduce_rows", "reduce_partials", "softmax"])
def test_a_kernel_with_subgroups_of_64_computes_its_reference(
    name: str, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    """Its halves meet, and what they exchange is used by a part of the lanes alone."""
    require("llvm-objdump")
    found = [k for _, k in shipped(f"hsaco-{arch}") if k.name == name and k.subgroup]
    assert found
    for k in found:
        constexprs = {**dict(k.constexprs), "SUBGROUP": 64}
        wide = families()[name].kernel.trace(k.specialization, **constexprs)
        judge(Emulated(wide, arch), wide, rng)
