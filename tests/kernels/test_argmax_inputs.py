"""Inputs of argmax that every lane of a workgroup has a part in."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.kernels.argmax import FAMILIES
from gristmill.kernels.family import Family

QUARTERS = {0, 1, 2, 3}  # of a workgroup of 256


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.kernel.name)
def test_the_greatest_element_lies_in_every_quarter_of_a_workgroup(family: Family) -> None:
    """Else a reduction may lose what the others bring: a missing barrier in it showed nowhere."""
    name, found = family.name, set[int]()
    rng = np.random.default_rng(5)
    for args in family.inputs(rng, {"T": "f32"}):
        if name == "argmax_merge":
            x = np.where(args["indices"] < 0, -np.inf, args["values"])[None]
        elif name == "argmax_rows":
            x = args["x"]
        else:
            groups = len(args["indices"])
            x = args["x"][: len(args["x"]) // groups * groups].reshape(groups, -1)
        x = x[~np.isnan(x).all(-1)]
        found |= {int(n) for n in np.nanargmax(x, -1) % 256 // 64}
    assert found == QUARTERS
