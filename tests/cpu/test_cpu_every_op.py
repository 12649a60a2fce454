"""Every op on every type gives its meaning bit for bit, lane by lane and as a uniform scalar."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cpu_runner import Artifact
from elementwise import expected, samples, worst
from every_op import cases, kernel_of
from gristmill.ir.dtypes import DTYPES, DType, bool_
from gristmill.ir.ops import ROWS

COUNT = 2048


def failures(
    t: DType, arch: str, uniform: bool, lanes: int, rng: np.random.Generator
) -> Iterator[str]:
    every = cases(t, fused=arch != "x86-64-v2")
    every = [c for c in every if lanes == 1 or c[0] != "dot4"]
    kernel = kernel_of(t, every, uniform, lanes)
    inputs = [samples(d, COUNT, rng) for d in (t, t, t, bool_)]
    results = [np.zeros(COUNT, out.storage) for _, _, out in every]
    groups = COUNT // lanes // (1 if uniform else 64)
    Artifact(kernel, arch).run([*inputs, *results], (groups, 1, 1))
    for (name, operands, out), got in zip(every, results, strict=True):
        arrays, types = [inputs[n] for n in operands], [(t, t, t, bool_)[n] for n in operands]
        want = expected(name, arrays, types, out)
        at, gap = worst(got, want, out)
        allowed = (ROWS[name].ulp or 0) if name in ("rsqrt",) else 0
        if gap > allowed:
            given = ", ".join(str(a[at]) for a in arrays)
            yield f"{name}({given}) of {t} -> {out}: got {got[at]}, expected {want[at]} ({gap} ulp)"


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_op_gives_its_meaning(t: DType, arch: str, rng: np.random.Generator) -> None:
    wrong = list(failures(t, arch, False, 1, rng))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_op_gives_its_meaning_in_scalars(
    t: DType, x86: str, rng: np.random.Generator
) -> None:
    wrong = list(failures(t, x86, True, 1, rng))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_every_op_gives_its_meaning_on_vectors(
    lanes: int, rng: np.random.Generator, x86: str
) -> None:
    names = rng.permutation(list(DTYPES))[:3]
    wrong = [text for name in names for text in failures(DTYPES[str(name)], x86, False, lanes, rng)]
    assert not wrong, "\n".join(wrong)
