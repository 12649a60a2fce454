"""Asynchronous copies on the host: plain ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from copy_kernels import COPIES, case
from cpu_runner import Artifact, missing

ARCH = "x86-64-v3"


@pytest.mark.parametrize(("t", "count"), [COPIES[0], COPIES[5], COPIES[9]])
def test_copies(t: str, count: int, rng: np.random.Generator, require: Callable[..., None]) -> None:
    if problem := missing(ARCH):
        require("cpu-v3", problem)
    for fill in (True, False):
        kernel, args, expected = case(rng, t, count, fill)
        Artifact(kernel, ARCH).run(args, (1, 1, 1))
        assert (args[1] == expected).all()
