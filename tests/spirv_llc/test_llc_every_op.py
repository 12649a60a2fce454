"""Every op on every type gives its meaning by way of LLVM as well; minutes of LLVM's time."""

from __future__ import annotations

import numpy as np
import pytest

from elementwise import one_op
from gristmill.backends.compile import Options
from gristmill.backends.spirv_llc.emit import emit
from op_cases import Case, cases, difference, dot_cases
from vulkan_driver import Driver


def check(driver: Driver, case: Case, lanes: int, rng: np.random.Generator) -> str | None:
    """What is wrong with a case; None if nothing, `lacks` where the device cannot run it."""
    kernel = one_op(*case, lanes)
    emitted = emit(kernel, "vulkan1.1", Options())
    if driver.lacks(emitted):
        return "lacks"
    return difference(driver, kernel, emitted, case, lanes, rng)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4])
def test_every_op_by_way_of_llvm(driver: Driver, lanes: int, rng: np.random.Generator) -> None:
    every = [*cases(), *(dot_cases() if lanes == 1 else ())]
    found = [check(driver, case, lanes, rng) for case in every]
    wrong = [text for text in found if text not in (None, "lacks")]
    assert not wrong, "\n".join(map(str, wrong))
    assert found.count(None) >= 60
