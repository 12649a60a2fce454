"""Random structured programs by way of LLVM give what the interpreter gives, or are refused.

Stored seeds in the usual run, fresh ones in the long one. GRISTMILL_PROGRAMS sets how many of
those a driver runs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.spirv_llc.emit import RouteError, emit
from gristmill.fuzz.generate import Features, random_kernel
from gristmill.ir import interp
from gristmill.ir.dtypes import DType
from gristmill.ir.text import print_kernel
from vulkan_driver import Driver

PROGRAMS = int(os.environ.get("GRISTMILL_PROGRAMS", "100"))
STORED = range(12)
VALID = 0.95
ARCHS = ("vulkan1.1", "vulkan1.3")


def features(driver: Driver, rng: np.random.Generator) -> Features:
    """What this device can run, with subgroups and 64-bit indexes now and then."""
    have = driver.features
    wide, narrow = "i64" in have, {"storage8", "storage16"} <= have
    return Features(
        i8=narrow,
        i16=narrow,
        i64=wide,
        f16=narrow,
        bf16=narrow,
        f64="f64" in have,
        atomics64="atomic_i64" in have and "atomic_shared_i64" in have,
        subgroup=driver.subgroup if rng.random() < 0.5 else None,
        faults=True,
        index="i64" if wide and rng.random() < 0.3 else "i32",
        lanes=(2, 4, 8),
    )


def numbers(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements as they compare: the bits of a NaN are unspecified."""
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def judge(driver: Driver, rng: np.random.Generator, arch: str) -> bool:
    """Whether LLVM takes a random program; what it takes must be right."""
    program = random_kernel(rng, features(driver, rng))
    kernel = program.kernel
    try:
        emitted = emit(kernel, arch, Options())
    except RouteError:
        return False
    assert not driver.lacks(emitted)
    wanted, actual = program.arguments(), program.arguments()
    report = interp.run(kernel, wanted, program.grid)
    faults = driver.launch(kernel, emitted, actual, program.grid)
    for param, a, b in zip(kernel.params, actual, wanted, strict=True):
        if param.is_memory:
            text = f"{param.name} of {print_kernel(kernel)}"
            pair = numbers(a, param.dtype), numbers(b, param.dtype)
            np.testing.assert_array_equal(*pair, err_msg=text)
    sites = {n for n in range(len(emitted.sites)) if faults[n // 32] >> (n % 32) & 1}
    assert sites == set(report.faults), print_kernel(kernel)
    return True


def tell(found: Counter[bool], driver: Driver, record_property: Callable) -> None:
    text = f"llc SPIR-V on {driver.label}: {found[True]} of {found.total()} random programs agree"
    record_property("summary", f"{text}, {found[False]} refused")
    assert found[True] >= VALID * found.total()


def test_stored_random_programs(driver: Driver, record_property: Callable) -> None:
    found = Counter(judge(driver, np.random.default_rng(n), ARCHS[n % 2]) for n in STORED)
    tell(found, driver, record_property)


@pytest.mark.slow
def test_fresh_random_programs(
    driver: Driver, rng: np.random.Generator, record_property: Callable
) -> None:
    found = Counter(judge(driver, rng, ARCHS[n % 2]) for n in range(PROGRAMS))
    tell(found, driver, record_property)
