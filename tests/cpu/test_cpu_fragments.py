"""Fragments on the host: subgroups of several sizes, every kind of product, attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cpu_runner import Artifact, missing
from fragment_kernels import attention_case, products, swizzled_case

ARCH = "x86-64-v3"


@pytest.fixture(autouse=True)
def _level(require: Callable[..., None]) -> None:
    if problem := missing(ARCH):
        require("cpu-v3", problem)


@pytest.mark.parametrize("size", [4, 8, 16, 32])
def test_products(size: int, rng: np.random.Generator) -> None:
    for case in products(rng, size, 6):
        Artifact(case.kernel, ARCH).run(case.args, (1, 1, 1))
        assert not case.wrong(case.args[-1])


def test_swizzled_rows(rng: np.random.Generator) -> None:
    case, read = swizzled_case(rng, "f16", 8)
    Artifact(case.kernel, ARCH).run(case.args, (1, 1, 1))
    assert not case.wrong(case.args[2])
    assert (case.args[3] == read).all()


@pytest.mark.parametrize("size", [8, 16])
def test_attention(size: int, rng: np.random.Generator) -> None:
    case = attention_case(rng, 64, size)
    Artifact(case.kernel, ARCH).run(case.args, (4, 1, 1))
    assert not case.wrong(case.args[3])
