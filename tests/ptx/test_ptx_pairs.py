"""Two f32 that become a word of f16 or bf16: one instruction from sm_80 on."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import emit
from gristmill.ir.lang import *
from ptx_model.host import Model
from ptx_tools import assembled

NAMES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@kernel(workgroup=lambda: 32, grid=lambda: ceil_div(len(y), 32))
def packed(x: Read[f32], y: Write[u32], *, T: DType = f16):
    i = global_id(0)
    if i < len(y):
        y[i] = bitcast(convert(vec(f32, 2)(x[2 * i], x[2 * i + 1]), T), u32)


@pytest.mark.parametrize("t", NAMES)
def test_a_pair_is_rounded_by_one_instruction(t: str, arch: str) -> None:
    text = emit(packed.trace("s", T=t), arch, Options()).blob.decode()
    assert (f"cvt.rn.{t}x2.f32" in text) == ARCHS[arch].pairs
    assert (f"cvt.rn.{t}.f32" in text) == (t == "f16" and not ARCHS[arch].pairs)
    assembled(text, arch)
    assert ARCHS[arch].pairs == (arch != "sm_75")


@pytest.mark.parametrize("level", ["sm_75", "sm_80"])
@pytest.mark.parametrize("t", NAMES)
def test_bits_are_those_of_elements_in_order(
    t: str, level: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    bits = rng.integers(0, 1 << 32, 4000, np.uint64).astype(np.uint32)
    x = bits.view(np.float32)
    x = np.concatenate([x[np.isfinite(x)], np.array([0.0, -0.0, np.inf, -np.inf, 65519, 65520])])
    x = x[: len(x) // 2 * 2].astype(np.float32)
    x[:1000] = rng.normal(size=1000)
    y = np.zeros(len(x) // 2, np.uint32)
    Model(packed.trace("s", T=t), level).run([x, y], (-(-len(y) // 32), 1, 1))
    with np.errstate(over="ignore"):
        expected = x.astype(NAMES[t]).view(np.uint32)
    assert (y == expected).all()
