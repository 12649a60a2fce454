"""8-bit floats as pairs of f16: every value, in every byte of a word."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.builder import Builder
from gristmill.ir.core import Value
from gristmill.ir.dtypes import DTYPES, u32
from gristmill.ir.float8 import to_float
from gristmill.ir.interp import run
from gristmill.ir.passes.float8_pairs import apart
from pass_kernels import elementwise


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("t", ["f8e4m3", "f8e5m2"])
def test_every_value(t: str, odd: int, lanes: int) -> None:
    def build(b: Builder, words: Value) -> Value:
        return apart(b, words, DTYPES[t])[odd]

    at = np.arange(256)
    given = np.stack([at, at[::-1], at ^ 0x55, at ^ 0xAA], 1).astype(np.uint8)
    out = np.zeros(256, np.uint32)
    k = elementwise(build, [u32], u32, lanes)
    assert run(k, [given.view(np.uint32)[:, 0], out], (256 // lanes, 1, 1)).problems == ()
    expected = np.array([to_float(int(n), t) for n in given[:, odd::2].reshape(-1)])
    np.testing.assert_array_equal(out.view(np.float16).astype(np.float64), expected)
