"""Asynchronous copies in PTX: cp.async, on the model and assembled."""

from __future__ import annotations

import re

import numpy as np
import pytest

from copy_kernels import COPIES, case, copies_before
from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import emit, prepare, write
from gristmill.ir.dtypes import DTYPES
from ptx_model.host import Model
from ptx_tools import assembled


@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize(("t", "count"), COPIES)
def test_copies_on_the_model(t: str, count: int, fill: bool, rng: np.random.Generator) -> None:
    kernel, args, expected = case(rng, t, count, fill)
    Model(kernel).run(args, (1, 1, 1), seed=int(rng.integers(1 << 30)))
    assert (args[1] == expected).all()


@pytest.mark.parametrize(("by_shift", "start"), [(False, 16), (True, 4)])
def test_an_unsigned_place_less_a_constant_is_not_four_billion_elements_away(
    by_shift: bool, start: int
) -> None:
    kernel = copies_before.trace("test", BY_SHIFT=by_shift)
    text = write(prepare(kernel, Options()), ARCHS["sm_80"])
    assert not re.findall(r"getelementptr .*, i64 -?\d{8,}", text)
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    Model(kernel).run([x, y, start], (1, 1, 1))
    assert (y == x).all()


def test_instructions(arch: str, rng: np.random.Generator) -> None:
    for t, count in COPIES:
        kernel, _, _ = case(rng, t, count, True)
        text = emit(kernel, arch, Options()).blob.decode()
        if arch == "sm_75":
            assert "cp.async" not in text
            continue
        level = "cg" if count * DTYPES[t].bytes == 16 else "ca"
        assert f"cp.async.{level}.shared.global" in text
        assert "cp.async.commit_group" in text
        assert "cp.async.wait_group" in text
        assembled(text, arch)


@pytest.mark.parametrize(("arch_", "checks"), [("sm_75", False), ("sm_80", True)])
def test_plain_where_there_are_none_or_accesses_are_checked(
    arch_: str, checks: bool, rng: np.random.Generator
) -> None:
    kernel, args, expected = case(rng, "f16", 8, True)
    assert "cp.async" not in emit(kernel, arch_, Options(checks=checks)).blob.decode()
    Model(kernel, arch_, checks).run(args, (1, 1, 1))
    assert (args[1] == expected).all()
