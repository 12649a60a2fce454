"""Frequencies of rotary embedding beside those of Transformers; turning in place; what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.kernels import rotary

# Transformers 5.24, `ROPE_INIT_FUNCTIONS`, f32, for 16 dims.
LINEAR = (0.25, 0.079056941, 0.025, 0.0079056947, 0.0024999999, 0.00079056947, 0.00025000001)
LINEAR += (7.9056947e-05,)
DYNAMIC = (1.0, 0.21921247, 0.048054103, 0.010534058, 0.0023091969, 0.00050620473, 0.00011096639)
DYNAMIC += (2.4325213e-05,)
YARN = (1.0, 0.31622776, 0.1, 0.025693506, 0.0062499996, 0.0013834966, 0.00025000001)
YARN += (7.9056947e-05,)
LLAMA3 = (1.0, 0.19392276, 0.037606031, 0.0072926651, 0.00052484602, 3.4281024e-05)
LLAMA3 += (6.6478697e-06, 1.2891732e-06)


def test_frequencies_are_those_of_the_models() -> None:
    close = {"rtol": 1e-6}
    np.testing.assert_allclose(rotary.linear(rotary.frequencies(16), 4), LINEAR, **close)
    np.testing.assert_allclose(rotary.dynamic_ntk(16, 4, 16384, 4096), DYNAMIC, **close)
    rates, attention = rotary.yarn(16, 4, 4096)
    np.testing.assert_allclose(rates, YARN, **close)
    assert attention == pytest.approx(1.138629436111989)
    llama3 = rotary.llama3(rotary.frequencies(16, 500_000.0), 8, 8192)
    np.testing.assert_allclose(llama3, LLAMA3, **close)


def test_scaling_by_one_changes_nothing() -> None:
    plain = rotary.frequencies(32)
    np.testing.assert_array_equal(rotary.ntk(32, 1), plain)
    np.testing.assert_array_equal(rotary.dynamic_ntk(32, 4, 4096, 4096), plain)
    np.testing.assert_allclose(rotary.yarn(32, 1, 4096)[0], plain, rtol=1e-15)
    np.testing.assert_allclose(rotary.llama3(plain, 1, 8192), plain, rtol=1e-15)
    slowest = rotary.ntk(32, 4)[-1]
    np.testing.assert_allclose(slowest, plain[-1] / 4)


@pytest.mark.parametrize("dims", [-2, 0, 3])
def test_dims_that_are_no_pairs_are_refused(dims: int) -> None:
    with pytest.raises(ValueError, match="even and positive"):
        rotary.frequencies(dims)


def turned(x: np.ndarray, y: np.ndarray, positions: list[int], **constexprs: object) -> list[str]:
    """Run on the oracle with 10 positions of 8 dims; the messages of failed asserts."""
    k = rotary.rotary.trace("test", **constexprs)
    table = rotary.table(rotary.frequencies(8), 10)
    at = np.array(positions, np.int32)
    report = run(k, [x, at, table, y, x.shape[1], x.shape[2], 8], (1, 1, 1))
    assert not report.problems
    return [k.sites[n] for n in sorted(report.faults)]


@pytest.mark.parametrize("vec", [1, 2])
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_buffer_may_be_turned_in_place(layout: str, vec: int) -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 12), np.float32)
    beside, within = np.zeros_like(x), x.copy()
    turned(x, beside, [3, 0, 9], LAYOUT=layout, VEC=vec)
    turned(within, within, [3, 0, 9], LAYOUT=layout, VEC=vec)
    np.testing.assert_array_equal(within, beside)
    np.testing.assert_array_equal(beside[..., 8:], x[..., 8:])
    np.testing.assert_array_equal(beside[1], x[1])
    assert not np.isclose(beside[0, :, :8], x[0, :, :8]).any()


@pytest.mark.parametrize("bad", [-1, 10, 2**31 - 1, -(2**31)])
def test_a_position_outside_the_table_is_a_fault_and_its_token_stays(bad: int) -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 12), np.float32)
    y = np.zeros_like(x)
    assert turned(x, y, [1, bad, 2]) == ["rotary: position outside the table"]
    np.testing.assert_array_equal(y[1], x[1])
    assert (y[::2, :, :8] != x[::2, :, :8]).all()
