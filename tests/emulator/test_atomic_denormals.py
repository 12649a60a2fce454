"""Atomic sums of f32: caches of older processors take denormals for zero, LDS does as MODE says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import registry
from amdgpu_emulator.one_wave import decoded, machine

TINY, LESS = np.float32(2.0**-140), np.float32(2.0**-126)  # a denormal; the smallest normal
KEEP, FLUSH = 0xF0, 0xC0  # MODE


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("llvm-mc")
    require("llvm-objdump")


def added(processor: str, text: str, cell: np.float32, data: np.float32, mode: int) -> np.float32:
    """The cell, in memory at v[0:1] or in LDS at v2 = 0, after an atomic of the first lane."""
    m = machine(processor, lds_bytes=16)
    m.mode_bits[:] = mode
    m.select(slice(0, 1), 1)
    memory = np.array([cell], np.float32)
    address = m.memory.add_array(memory, "cell")
    zero = np.zeros(1, np.int64)
    m.lds.store(zero, zero, 4, memory.view(np.uint32)[:, None])
    for register, value in enumerate((address & 0xFFFFFFFF, address >> 32, 0)):
        m.write_all(register, np.full((1, m.lanes), value, np.uint32))
    m.write_all(3, np.full((1, m.lanes), data).view(np.uint32))
    first = np.zeros((1, m.lanes), bool)
    first[0, 0] = True
    m.write_lane_bits(126, first)
    (i,) = decoded(processor, text)
    registry.build(i, m.arch)(m)
    words = m.lds.load(zero, zero, 4) if text.startswith("ds_") else memory.view(np.uint32)
    return np.float32(words.reshape(-1).view(np.float32)[0])


IN_MEMORY = "global_atomic_add_f32 v[0:1], v3, off"


@pytest.mark.parametrize(
    ("processor", "keeps"),
    [("gfx908", False), ("gfx90a", False), ("gfx942", True), ("gfx950", True), ("gfx1100", False),
     ("gfx1201", True)],
)  # fmt: skip
@pytest.mark.parametrize("mode", [KEEP, FLUSH])
def test_sums_in_memory_keep_denormals_by_the_processor_alone(
    processor: str, keeps: bool, mode: int
) -> None:
    assert added(processor, IN_MEMORY, TINY, TINY, mode) == (2 * TINY if keeps else 0)
    assert added(processor, IN_MEMORY, LESS, TINY, mode) == (LESS + TINY if keeps else LESS)
    got = added(processor, IN_MEMORY, np.float32(1.5) * LESS, -LESS, mode)  # a denormal result
    assert got == (LESS / 2 if keeps else 0)
    assert added(processor, IN_MEMORY, np.float32(2), np.float32(3), mode) == 5
    assert np.signbit(added(processor, IN_MEMORY, -TINY, -TINY, mode))


@pytest.mark.parametrize("processor", ["gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_sums_in_lds_keep_denormals_by_the_mode(processor: str) -> None:
    assert added(processor, "ds_add_f32 v2, v3", TINY, TINY, KEEP) == 2 * TINY
    assert added(processor, "ds_add_f32 v2, v3", TINY, TINY, FLUSH) == 0
