"""Conversions of 8-bit floats in PTX: the instructions from sm_89 on, integer code before."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import emit, validate
from gristmill.kernels.cast import cast
from ptx_model.host import Model
from ptx_tools import assembled

NAMES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
EVERY = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_the_instruction_is_there_and_asks_for_its_version(name: str, arch: str) -> None:
    kind = name.removeprefix("f8")
    for t, u, word in ((name, "f16", f"cvt.rn.f16x2.{kind}x2"), ("f32", name, f"{kind}x2.f32")):
        kernel = cast.trace("s", T=t, U=u, VEC=8)
        blob = emit(kernel, arch, Options()).blob
        validate(blob, arch, kernel)
        text, native = blob.decode(), ARCHS[arch].float8
        assert (word in text) == native
        wanted = max(ARCHS[arch].isa, "8.1") if native else ARCHS[arch].isa
        assert f".version {wanted}\n" in text
        assembled(text, arch)
    assert ARCHS[arch].float8 == (arch not in ("sm_75", "sm_80", "sm_86"))


@pytest.mark.parametrize("level", ["sm_80", "sm_89"])
@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("name", NAMES)
def test_bits_agree_with_another_implementation(
    name: str, lanes: int, level: str, require: Callable[..., None]
) -> None:
    require("gcc")
    y = np.zeros(256, np.float32)
    Model(cast.trace("s", T=name, U="f32", VEC=lanes), level).run([EVERY, y], (1, 1, 1))
    np.testing.assert_array_equal(y, EVERY.view(NAMES[name]).astype(np.float32))
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    z = np.zeros(1 << 16, np.uint8)
    kernel = cast.trace("s", T="f16", U=name, VEC=lanes)
    Model(kernel, level).run([x, z], ((1 << 16) // lanes // 256, 1, 1))
    with np.errstate(all="ignore"):
        want = x.astype(NAMES[name])
    np.testing.assert_array_equal(z.view(NAMES[name]).astype(np.float32), want.astype(np.float32))
