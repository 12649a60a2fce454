"""Expansions inside kernels: valid IR, and the same bits from the interpreter as from the tests."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, renumber
from gristmill.ir.dtypes import Access, DType, MemType, Space, f32, f64, i32
from gristmill.ir.interp import run
from gristmill.ir.maths import EXPANSIONS, expand
from gristmill.ir.parse import parse_kernel
from gristmill.ir.text import print_kernel
from gristmill.ir.verify import verify
from maths_evaluation import evaluate, operand_types

GROUP = 64


def kernel_of(op: str, dtype: DType, lanes: int) -> Kernel:
    """y[i] = op(x0[i], ...) through the expansion, with vector accesses where lanes > 1."""
    types = [*operand_types(op, dtype), dtype]
    params, memory = [], []
    builder = Builder()
    for n, t in enumerate(types):
        access = Access.WRITE if n == len(types) - 1 else Access.READ
        params.append(Param(f"x{n}", "buffer", t, access))
        memory.append(builder.value(MemType(Space.BUFFER, t, None, access)))  # type: ignore[arg-type]
    i = builder.emit("global_id", type=i32, dim=0)
    shape = {"lanes": lanes} if lanes > 1 else {}
    values = tuple(builder.emit("load", m, i, **shape) for m in memory[:-1])
    builder.do("store", memory[-1], i, expand(builder, op, values))
    builder.do("return")
    body = Region(tuple(memory), tuple(builder.ops))
    return renumber(Kernel(op, "t", tuple(params), (GROUP, 1, 1), i32, body))


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(("dtype", "kind"), [(f32, np.float32), (f64, np.float64)])
@pytest.mark.parametrize("op", sorted(EXPANSIONS))
def test_interpreter_verifier_and_text_agree(
    op: str, dtype: DType, kind: type, lanes: int, rng: np.random.Generator
) -> None:
    kernel = kernel_of(op, dtype, lanes)
    verify(kernel)
    assert parse_kernel(print_kernel(kernel)) == kernel
    count = GROUP * lanes
    size = np.exp(rng.uniform(-8, 8, (2, count))) * rng.choice([-1, 1, 1, 1], (2, count))
    size[:, :4] = np.array([[0.0, -0.0, np.inf, 1e30], [1.0, 3.0, -2.0, 7.0]])
    args = [a.astype(kind) for a in size[: len(kernel.params) - 1]]
    if op == "ldexp":
        args[1] = rng.integers(-30, 30, count).astype(np.int32)
    out = np.zeros(count, kind)
    report = run(kernel, [*args, out], (1, 1, 1))
    assert not report.problems
    expected = evaluate(op, *args, mode="fused")
    # f64 fma is evaluated here to 64 bits before its rounding: a last place may differ.
    near = 0 if kind is np.float32 else 2 * np.spacing(np.abs(expected))
    with np.errstate(invalid="ignore"):
        same = (out == expected) | (np.abs(out - expected) <= near)
    assert np.all(same | (np.isnan(out) & np.isnan(expected)))
