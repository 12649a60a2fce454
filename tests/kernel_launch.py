"""A kernel on the oracle, over the grid that it states."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.ir.abi import evaluate
from gristmill.ir.interp import run
from gristmill.ir.lang import KernelFunction


def launch(kernel: KernelFunction, *args: Any, **constexprs: Any) -> list[str]:
    """Run it on these arguments; the messages of the asserts that failed."""
    traced = kernel.trace("test", **constexprs)
    counts = {p.name: np.size(a) for p, a in zip(traced.params, args, strict=True) if p.is_memory}
    scalars = {p.name: a for p, a in zip(traced.params, args, strict=True) if not p.is_memory}
    assert traced.grid is not None
    x, y, z = (evaluate(e, counts, scalars) for e in traced.grid)
    report = run(traced, list(args), (x, y, z))
    assert not report.problems
    return [traced.sites[n] for n in sorted(report.faults)]
