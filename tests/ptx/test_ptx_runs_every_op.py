"""Every op on every type gives its meaning bit for bit, as the code for PTX runs on the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from elementwise import expected, samples, worst
from every_op import cases, kernel_of
from gristmill.ir.dtypes import DTYPES, DType, bool_
from gristmill.ir.ops import ROWS
from ptx_model.host import Model

COUNT = 2048


def failures(t: DType, arch: str, lanes: int, rng: np.random.Generator) -> Iterator[str]:
    every = [c for c in cases(t, fused=True) if lanes == 1 or c[0] != "dot4"]
    inputs = [samples(d, COUNT, rng) for d in (t, t, t, bool_)]
    results = [np.zeros(COUNT, out.storage) for _, _, out in every]
    model = Model(kernel_of(t, every, False, lanes), arch)
    model.run([*inputs, *results], (COUNT // lanes // 64, 1, 1))
    for (name, operands, out), got in zip(every, results, strict=True):
        arrays, types = [inputs[n] for n in operands], [(t, t, t, bool_)[n] for n in operands]
        want = expected(name, arrays, types, out)
        at, gap = worst(got, want, out)
        if gap > ((ROWS[name].ulp or 0) if name == "rsqrt" else 0):
            given = ", ".join(str(a[at]) for a in arrays)
            yield f"{name}({given}) of {t} -> {out}: got {got[at]}, expected {want[at]} ({gap} ulp)"


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89"])
@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_op_runs_as_it_is_meant(
    t: DType, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    wrong = list(failures(t, arch, 1, rng))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_every_op_runs_as_it_is_meant_on_vectors(
    lanes: int, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    names = rng.permutation(list(DTYPES))[:3]
    wrong = [text for name in names for text in failures(DTYPES[str(name)], "sm_80", lanes, rng)]
    assert not wrong, "\n".join(wrong)
