"""Division of 64-bit integers where a target has none: exact for all operands."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.core import walk
from gristmill.ir.dtypes import DTYPES, element_of
from gristmill.ir.passes.dce import Dce
from gristmill.ir.passes.legalize import Legalize
from gristmill.ir.passes.support import Support
from pass_check import same
from pass_kernels import elementwise
from wide_integers import magnitudes, quotients

LACKS = Support(divides=32)
STEPS = [Legalize(LACKS), Dce()]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["u64", "i64"])
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_a_division_is_exact(op: str, name: str, lanes: int, rng: np.random.Generator) -> None:
    t = DTYPES[name]
    x, y = quotients(t, rng)
    size = len(x) // lanes
    kernel = elementwise(lambda b, v, w: b.emit(op, v, w), [t, t], t, lanes)
    after = same(kernel, STEPS, [x[: size * lanes], y[: size * lanes], x.copy()], (size, 1, 1))
    assert not wide_divisions(after)


CONSTANTS = [
    *(0, 1, 2, 3, 5, 6, 7, 8, 10, 641, 1000, 65537, 1 << 31, (1 << 32) - 1, 6700417, 10**18),
    *((1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 3),
    *((1 << 64) - n for n in (1, 2, 7, 8, 1000, 1 << 40, 10**17)),
]


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("name", ["u64", "i64"])
def test_a_division_by_a_constant_is_exact(name: str, lanes: int, rng: np.random.Generator) -> None:
    t = DTYPES[name]
    for divisor in CONSTANTS:
        number = divisor - (1 << 64) if t.is_signed and divisor >> 63 else divisor
        multiples = np.uint64(divisor) * rng.integers(0, 1 << 64, 32, np.uint64)
        x = np.concatenate([magnitudes(t, rng), multiples.view(t.storage)])
        x = np.concatenate([x, x - 1])
        size = len(x) // lanes

        def build(b, v, number=number):
            by = b.const(number, v.type)
            return b.emit("xor", b.emit("floordiv", v, by), b.emit("mul", b.emit("mod", v, by), by))

        kernel = elementwise(build, [t], t, lanes)
        after = same(kernel, STEPS, [x[: size * lanes], x.copy()], (size, 1, 1))
        left = {op.name for op in walk(after.body)}
        assert left.isdisjoint(("floordiv", "mod", "div")), number


def test_narrower_divisions_stay(rng: np.random.Generator) -> None:
    for name in ("i8", "u8", "i16", "u16", "i32", "u32"):
        t = DTYPES[name]
        kernel = elementwise(lambda b, v, w: b.emit("mod", v, w), [t, t], t)
        assert Legalize(LACKS)(kernel) is kernel


def wide_divisions(kernel) -> list[str]:
    return [
        op.name
        for op in walk(kernel.body)
        if op.name in ("floordiv", "mod") and element_of(op.operands[0].type).bits == 64
    ]
