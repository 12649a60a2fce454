"""Every op on every type and width gives what its meaning says, through wgpu."""

from __future__ import annotations

import numpy as np
import pytest

from elementwise import one_op
from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from op_cases import Case, cases, difference, dot_cases
from wgpu_driver import WgpuDriver


def check(driver: WgpuDriver, case: Case, lanes: int, rng: np.random.Generator) -> str | None:
    """What is wrong with a case; None if nothing, `lacks` where the device cannot run it."""
    kernel = one_op(*case, lanes)
    emitted = emit(kernel, "webgpu", Options())
    if driver.lacks(emitted):
        return "lacks"
    return difference(driver, kernel, emitted, case, lanes, rng)


@pytest.mark.parametrize("lanes", [1, 4])
def test_every_op_through_wgpu(
    wgpu_driver: WgpuDriver, lanes: int, rng: np.random.Generator
) -> None:
    every = [*cases(), *(dot_cases() if lanes == 1 else ())]
    found = [check(wgpu_driver, case, lanes, rng) for case in every]
    wrong = [text for text in found if text not in (None, "lacks")]
    assert not wrong, "\n".join(map(str, wrong))
    assert found.count(None) >= 200


def test_packed_dot_product_of_wgsl_agrees(
    wgpu_driver: WgpuDriver, rng: np.random.Generator
) -> None:
    for case in dot_cases():
        name, (a, b, _), _ = case
        if a != b:  # WGSL has no product of mixed signs
            continue
        kernel = one_op(*case)
        emitted = emit(kernel, "webgpu:dot4", Options())
        assert "dot4" in emitted.requires
        assert "requires packed_4x8_integer_dot_product;" in emitted.blob.decode()
        assert difference(wgpu_driver, kernel, emitted, case, 1, rng) is None, name
