"""64-bit integers for tests of division."""

from __future__ import annotations

import numpy as np

from gristmill.ir.dtypes import DType


def magnitudes(t: DType, rng: np.random.Generator) -> np.ndarray:
    """Integers of every magnitude, and those beside powers of two."""
    bits = np.arange(64, dtype=np.uint64)
    powers = np.uint64(1) << bits
    words = rng.integers(0, 1 << 64, 192, np.uint64) >> np.tile(bits, 3)
    found = np.concatenate([powers - 1, powers, powers + 1, ~powers, words, ~words])
    return found.view(t.storage)


def quotients(t: DType, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors of all magnitudes, among them pairs that leave a rest of 0 and pairs
    that miss the next quotient by 1."""
    a = magnitudes(t, rng)
    x, y = np.repeat(a, 160), np.tile(rng.permutation(a)[:160], len(a))
    factors = rng.integers(0, 1 << 12, len(y), np.uint64)
    whole = (y.view(np.uint64) * factors).view(t.storage)
    x, y = np.concatenate([x, whole, whole - 1]), np.concatenate([y, y, y])
    return x, y


def grouped(
    t: DType, rng: np.random.Generator, workgroup: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """As `quotients`, what fills whole workgroups of so many elements, and how many those are."""
    x, y = quotients(t, rng)
    groups = len(x) // workgroup
    return x[: groups * workgroup], y[: groups * workgroup], groups
