"""No module divides integers of 64 bits: NVIDIA's Vulkan compiler (580.159) does it wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from elementwise import WORKGROUP, expected, one_op
from gristmill.backends.compile import Options
from gristmill.backends.spirv.emit import emit, validate
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES, f64, i64, u64
from kernel_text import disassembly, kernel
from vulkan_driver import Driver
from wide_integers import grouped

DIVISIONS = re.compile(r"= Op(?:UDiv|SDiv|UMod|SMod|SRem) (%\d+)")


def kernels() -> Iterator[Kernel]:
    """Every way to a division: the ops, by what is known and what is not, and what they are in."""
    for t in (i64, u64):
        for name in ("floordiv", "mod"):
            for lanes in (1, 2, 4):
                yield one_op(name, [t, t], t, lanes)
            for divisor in (0, 1, 3, 8, (1 << 63) - 1, *((-1, -3) if t.is_signed else ())):
                body = f"""
                  %2 = local_id {{dim=0}} : i32
                  %3 = load %0, %2 {{lanes=2}} : {t}x2
                  %4 = const {divisor} : {t}
                  %5 = splat %4 : {t}x2
                  %6 = {name} %3, %5 : {t}x2
                  store %1, %2, %6
                  return"""
                yield kernel(f"x: {t} buffer read, y: {t} buffer write", body)
    for lanes in (1, 4):
        yield one_op("fmod", [f64, f64], f64, lanes)


@pytest.mark.parametrize("arch", ["vulkan1.1", "vulkan1.3"])
def test_no_module_divides_wide_integers(arch: str) -> None:
    divisions = 0
    for k in kernels():
        module = emit(k, arch, Options())
        validate(module.blob, arch, k)
        text = disassembly(module)
        wide = set(re.findall(r"(%\d+) = OpTypeInt 64", text))
        wide |= {v for v, t in re.findall(r"(%\d+) = OpTypeVector (%\d+)", text) if t in wide}
        assert wide, k.name
        types = DIVISIONS.findall(text)
        assert wide.isdisjoint(types), k.name
        divisions += len(types)
    assert divisions  # of words, for ids


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("name", ["i64", "u64"])
def test_wide_quotients_are_exact(
    driver: Driver, rng: np.random.Generator, name: str, lanes: int
) -> None:
    t = DTYPES[name]
    x, y, groups = grouped(t, rng, WORKGROUP * lanes)
    for op in ("floordiv", "mod"):
        k = one_op(op, [t, t], t, lanes)
        module = emit(k, "vulkan1.1", Options())
        if driver.lacks(module):
            assert "i64" not in driver.features
            continue
        actual = np.zeros_like(x)
        driver.launch(k, module, [x.copy(), y.copy(), actual], (groups, 1, 1))
        np.testing.assert_array_equal(actual, expected(op, [x, y], [t, t], t))
