"""The bound of loop turns holds for every kernel that ships, and is not far above what they do."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.abi import evaluate
from gristmill.ir.interp import run
from gristmill.ir.turns import loop_turns
from gristmill.kernels import elementwise, families
from nv_kernels import FOR_NVIDIA

OPS = {"unary": elementwise.op_gelu, "binary": elementwise.op_add}


@pytest.mark.parametrize("name", sorted(families()))
def test_no_invocation_takes_more_turns_than_the_bound(name: str, rng: np.random.Generator) -> None:
    """As the interpreter counts them; the pass that leaves the last loop is not in the bound."""
    family = families()[name]
    missing = {"OP": OPS[name]} if name in OPS else {}
    kernel = family.kernel.trace("test", **missing)
    turns = loop_turns(kernel)
    if turns.open:
        assert name in FOR_NVIDIA  # where no driver bounds the turns of a loop
        return
    for args in family.inputs(rng, dict(kernel.constexprs)):
        counts = {p.name: np.size(args[p.name]) for p in kernel.params if p.is_memory}
        scalars = {p.name: args[p.name] for p in kernel.params if not p.is_memory}
        assert kernel.grid is not None
        x, y, z = (evaluate(e, counts, scalars) for e in kernel.grid)
        if x * y * z == 0:
            continue
        done = run(kernel, list(args.values()), (x, y, z)).max_trips
        bound = evaluate(turns.bound, counts, scalars, (x, y, z))
        assert done - 1 <= bound <= 4 * done + 128
