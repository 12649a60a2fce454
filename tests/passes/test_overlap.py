"""Workgroup arrays that share bytes: which may, and which must not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import Kernel, Op
from gristmill.ir.passes.overlap import ALIGN, place_arrays
from gristmill.ir.text import parse_kernel

HEAD = (
    "kernel k test\nparam x: f32 buffer read\nparam y: f32 buffer write\nworkgroup 32 1 1\n"
    "index i32\nbody(%0: buffer<f32,read>, %1: buffer<f32,write>) {\n"
)


def kernel(counts: list[int], lines: str) -> Kernel:
    """Arrays %10, %11, ... of so many f32; `use N` loads array N."""
    text = HEAD
    for n, count in enumerate(counts):
        text += f'  %{10 + n} = alloc {{name="a{n}"}} : workgroup<f32,{count}>\n'
    text += "  %2 = const 0 : i32\n  %3 = const 4 : i32\n"
    fresh = itertools.count(100)
    for line in lines.split("\n"):
        word = line.split()
        if word[:1] == ["use"]:
            text += f"  %{next(fresh)} = load %{10 + int(word[1])}, %2 : f32\n"
        elif word[:1] == ["copy"]:
            text += f"  copy_async %{10 + int(word[1])}, %2, %0, %2 {{count=4}}\n"
        elif word[:1] == ["for"]:
            text += f"  for %2, %3 body(%{next(fresh)}: i32) {{\n"
        elif word[:1] == ["end"]:
            text += "  continue\n  }\n"
        else:
            text += f"  {line}\n"
    return parse_kernel(text + "  return\n}\n")


K = 1024
DISJOINT = "use 0\nbarrier\nuse 1"
CASES: dict[tuple[tuple[int, ...], str], tuple[list[int], int]] = {
    ((K, K), DISJOINT): ([0, 0], 4 * K),
    ((K, 2 * K), DISJOINT): ([0, 0], 8 * K),
    ((K, K), "use 0\nuse 1"): ([0, 4 * K], 8 * K),
    ((K, K), "use 0\nuse 1\nbarrier\nuse 1"): ([0, 4 * K], 8 * K),
    ((K, K), "use 0\nbarrier\nuse 1\nbarrier\nuse 0"): ([0, 4 * K], 8 * K),
    ((K, K), "for\nuse 0\nbarrier\nuse 1\nbarrier\nend"): ([0, 4 * K], 8 * K),
    ((K, K), "for\nuse 0\nbarrier\nend\nuse 1"): ([0, 4 * K], 8 * K),
    ((K, K), "for\nuse 0\nbarrier\nend\nbarrier\nfor\nuse 1\nend"): ([0, 0], 4 * K),
    ((K, K, K), "use 0\nbarrier\nuse 1\nbarrier\nuse 2"): ([0, 0, 0], 4 * K),
    ((K, K, K), "use 0\nuse 1\nbarrier\nuse 1\nuse 2"): ([0, 4 * K, 0], 8 * K),
    ((2 * K, K, K), "use 0\nbarrier\nuse 1\nuse 2"): ([0, 0, 4 * K], 8 * K),
    ((K, 16), DISJOINT): ([0, 4 * K], 4 * K + 64),
    ((K, K), "copy 0\ncopy_commit\nuse 0\nbarrier\nuse 1\ncopy_wait {pending=0}"): (
        [0, 4 * K], 8 * K,
    ),
    ((K, K), "copy 0\ncopy_commit\ncopy_wait {pending=0}\nuse 0\nbarrier\nuse 1"): (
        [0, 0], 4 * K,
    ),
    ((K, K), "barrier"): ([0, 0], 4 * K),
    ((K,), "use 0"): ([0], 4 * K),
    ((), "barrier"): ([], 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_places(case: Any) -> None:
    counts, lines = case
    places, total = CASES[case]
    block = place_arrays(kernel(list(counts), lines))
    assert [a.at for a in block.arrays] == places
    assert block.bytes == total
    assert block.shared == (block.bytes < sum(4 * c for c in counts))


def test_arrays_in_use_together_never_meet(rng: np.random.Generator) -> None:
    for _ in range(200):
        counts = [int(n) for n in rng.integers(1, 3000, rng.integers(1, 7))]
        steps = rng.integers(-1, len(counts), 30)
        traced = kernel(counts, "\n".join("barrier" if n < 0 else f"use {n}" for n in steps))
        block = place_arrays(traced)
        used: dict[int, tuple[int, int]] = {}
        phase = 0
        for n in map(int, steps):
            phase += n < 0
            if n >= 0:
                used[n] = (used.get(n, (phase, 0))[0], phase)
        for a, b in itertools.combinations(sorted(used), 2):
            one, two = block.arrays[a], block.arrays[b]
            together = used[a][0] <= used[b][1] and used[b][0] <= used[a][1]
            meet = one.at < two.at + two.bytes and two.at < one.at + one.bytes
            assert not (together and meet)
        assert all(a.at % ALIGN == 0 for a in block.arrays)
        assert block.bytes <= sum(-(-a.bytes // ALIGN) * ALIGN for a in block.arrays)
        assert all(isinstance(a.op, Op) for a in block.arrays)
