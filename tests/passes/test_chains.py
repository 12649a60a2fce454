"""Chains of values that parameters alone decide are cut, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.core import Kernel, walk
from gristmill.ir.passes.chains import CutChains
from gristmill.ir.text import parse_kernel
from gristmill.ir.verify import verify

HEAD = """kernel chain test
param y: {0} buffer write
param n: i32 scalar
workgroup 4 1 1
index i32
body(%y.0: buffer<{0},write>, %n.1: i32) {{
"""


def chain(steps: int, start: str = "%1", t: str = "i32") -> Kernel:
    """v * (v ^ k), again and again: twice as many ways to `start` with each step."""
    lines, value = ["%2 = const 0 : i32", f"%3 = convert %1 : {t}"], "%3"
    if start != "%1":
        lines.append(f"%4 = {start}")
        value = "%4"
    for n in range(steps):
        at = 10 + 3 * n
        lines += [
            f"%{at} = const {2 * n + 1} : {t}",
            f"%{at + 1} = add {value}, %{at} : {t}",
            f"%{at + 2} = mul {value}, %{at + 1} : {t}",
        ]
        value = f"%{at + 2}"
    lines.append(f"store %0, %2, {value}")
    return parse_kernel(HEAD.format(t) + "\n".join(lines) + "\nreturn\n}\n", "chain.kir")


def selections(made: Kernel) -> int:
    return sum(op.name == "select" for op in walk(made.body))


@pytest.mark.parametrize("t", ["i32", "i64", "f32", "f64"])
def test_what_many_ways_lead_to_is_cut_and_keeps_its_value(t: str) -> None:
    made = chain(40, t=t)
    cut = CutChains()(made)
    verify(cut)
    assert selections(cut) == 1  # no later one is decided by parameters alone
    outs = [np.zeros(1, t.replace("i", "int").replace("f", "float")) for _ in range(2)]
    for k, out in zip((made, cut), outs, strict=True):
        interp.run(k, [out, 5], (1, 1, 1))
    np.testing.assert_array_equal(outs[0], outs[1])


def test_a_short_chain_stays() -> None:
    made = chain(8)
    assert CutChains()(made) is made


def test_what_an_invocation_decides_stays() -> None:
    made = chain(40, start="local_id {dim=0} : i32")
    assert CutChains()(made) is made
