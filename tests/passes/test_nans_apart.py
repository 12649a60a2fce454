"""Where a driver may fold a NaN away, expanded functions choose the result for NaNs by bits."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, renumber, walk
from gristmill.ir.dtypes import DTYPES, Access, MemType, Space, i32
from gristmill.ir.maths import EXPANSIONS
from gristmill.ir.passes import run, standard
from gristmill.ir.passes.support import OPTIONAL, Support

NATIVE = frozenset(OPTIONAL - EXPANSIONS.keys())
BINARY = ("pow", "atan2", "hypot", "fmod")
TESTS = ("eq", "ne", "lt", "le", "gt", "ge", "isnan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, -np.nan, 1e-40, 3e38]


def one_op(name: str, dtype: str) -> Kernel:
    """y[i] = name(a[i], b[i]) or name(a[i])."""
    t, b = DTYPES[dtype], Builder()
    memory = [MemType(Space.BUFFER, t, None, Access.READ)] * 2 + [MemType(Space.BUFFER, t)]
    args = [b.value(m) for m in memory]
    i = b.emit("global_id", type=i32, dim=0)
    operands = [b.emit("load", m, i) for m in args[: 2 if name in BINARY else 1]]
    b.do("store", args[2], i, b.emit(name, *operands))
    b.do("return")
    params = tuple(Param(n, "buffer", t) for n in "ab")
    params += (Param("y", "buffer", t, Access.READWRITE),)
    body = Region(tuple(args), tuple(b.ops))
    return renumber(Kernel("k", "s", params, (1, 1, 1), i32, body))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(EXPANSIONS.keys() - {"ldexp"}))
def test_nans_come_out_as_the_function_says(name, dtype):
    pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
    a, b = (np.array(v, DTYPES[dtype].storage) for v in zip(*pairs, strict=True))
    expected, kept, plain = (np.zeros_like(a) for _ in range(3))
    kernel = one_op(name, dtype)
    interp.run(kernel, [a, b, expected], (a.size, 1, 1))
    for keeps_nan, out in ((False, kept), (True, plain)):
        support = Support(native=NATIVE, keeps_nan=keeps_nan)
        lowered = run(kernel, standard(support))
        tests = [op for op in walk(lowered.body) if op.name == "isnan"]
        assert bool(tests) is not keeps_nan
        interp.run(lowered, [a, b, out], (a.size, 1, 1))
    np.testing.assert_array_equal(np.isnan(kept), np.isnan(expected))
    np.testing.assert_array_equal(kept, plain)


def test_a_rounding_to_bf16_tells_nans_by_their_bits():
    """NVIDIA's square roots give 0x7FFFFFFF, which rounds up to -0 where no NaN is expected."""
    support = Support(arithmetic=Support().arithmetic - {"bf16"}, keeps_nan=False)
    lowered = run(one_op("sqrt", "bf16"), standard(support))
    compared = {v.type for op in walk(lowered.body) if op.name in TESTS for v in op.operands}
    assert compared == {DTYPES["u32"]}
