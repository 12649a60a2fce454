"""Fragments on Vulkan drivers that lack matrices: lowered to plain code."""

from __future__ import annotations

import numpy as np

from fragment_kernels import attention_case, products
from gristmill.backends.compile import Options
from gristmill.backends.spirv.emit import emit, validate
from vulkan_driver import Driver


def test_products(driver: Driver, rng: np.random.Generator) -> None:
    for case in products(rng, driver.subgroup, 12):
        emitted = emit(case.kernel, "vulkan1.1", Options())
        validate(emitted.blob, "vulkan1.1", case.kernel)
        if driver.lacks(emitted):
            continue
        driver.launch(case.kernel, emitted, case.args, (1, 1, 1))
        assert not case.wrong(case.args[-1])


def test_attention(driver: Driver, rng: np.random.Generator) -> None:
    case = attention_case(rng, 64, driver.subgroup)
    emitted = emit(case.kernel, "vulkan1.1", Options())
    validate(emitted.blob, "vulkan1.1", case.kernel)
    if not driver.lacks(emitted):
        driver.launch(case.kernel, emitted, case.args, (4, 1, 1))
        assert not case.wrong(case.args[3])
