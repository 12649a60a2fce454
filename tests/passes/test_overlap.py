"""Workgroup arrays that share bytes: which may, and which must not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gristmill.ir import interp
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
        elif word[:1] == ["put"]:
            at, each = next(fresh), next(fresh)
            text += f"  %{at} = const {counts[int(word[1])]} : i32\n"
            text += f"  for %2, %{at} body(%{each}: i32) {{\n"
            value = next(fresh)
            text += f"  %{value} = const 1.0 : f32\n"
            text += f"  store %{10 + int(word[1])}, %{each}, %{value}\n  continue\n  }}\n"
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


# Arrays that one loop alone uses. A line is an op of the loop's turn: `write N` and `read N` are of
# all invocations, each its own cells; `part N` writes all but the last; `maybe N` writes if a
# parameter says so; `far N` reads what the neighbours wrote; `leave` goes to the next turn early.
CELLS, ROUNDS = 512, 3  # of an array; turns
LOOPS: dict[str, tuple[str, bool]] = {
    "write 0,barrier,far 0,barrier,write 1,barrier,far 1,barrier": ("apart", True),
    "write 0,barrier,far 0,barrier,write 1,barrier,far 1": ("a turn meets the next", False),
    "barrier,write 0,barrier,far 0,barrier,write 1,barrier,far 1": ("a barrier at the head", True),
    "write 0,barrier,far 0,write 1,barrier,far 1,barrier": ("no barrier between", False),
    "far 0,barrier,write 0,barrier,write 1,barrier,far 1,barrier": ("read by the next", False),
    "part 0,barrier,far 0,barrier,write 1,barrier,far 1,barrier": ("a cell is kept", False),
    "maybe 0,barrier,far 0,barrier,write 1,barrier,far 1,barrier": ("may be kept", False),
    "write 0,read 0,barrier,write 1,barrier,far 1,barrier": ("read before a barrier", False),
    "write 0,barrier,far 0,leave,barrier,write 1,barrier,far 1,barrier": ("left early", False),
    "write 0,barrier,far 0,barrier,write 1,barrier,far 1,write 0,barrier": ("used again", False),
}


def loop_text(lines: str, places: list[int] | None) -> str:
    """A loop over the lines, with two arrays, or with one in which they lie at these cells."""
    numbers = itertools.count(200)
    out = [HEAD.replace("buffer write", "buffer readwrite").rstrip("\n")]
    out[0] = out[0].replace("%1: buffer<f32,write>", "%1: buffer<f32,readwrite>")
    if places is None:
        out += [f'%{10 + n} = alloc {{name="a{n}"}} : workgroup<f32,{CELLS}>' for n in (0, 1)]
    else:
        total = max(places) + CELLS
        out.append(f'%10 = alloc {{name="both"}} : workgroup<f32,{total}>')
    out += ["%2 = local_id {dim=0} : i32", "%3 = const 0 : i32", f"%4 = const {ROUNDS} : i32"]
    out += ["%5 = const 16 : i32", "%6 = const 32 : i32", "%7 = const 31 : i32"]
    out += ["%8 = load %0, %3 : f32", "%9 = const 0.0 : f32", "%12 = gt %8, %9 : bool"]
    out += [f"%{20 + n} = const {(places or [0, 0])[n]} : i32" for n in (0, 1)]
    out.append("for %3, %4 body(%13: i32) {")

    def cell(n: int, lane: str, row: str) -> tuple[str, str]:
        """Array and cell [row * 32 + lane] of array n."""
        a, b, c = (f"%{next(numbers)}" for _ in range(3))
        out.extend((f"{a} = mul {row}, %6 : i32", f"{b} = add {a}, {lane} : i32"))
        out.append(f"{c} = add {b}, %{20 + n} : i32")
        return (f"%{10 + n}" if places is None else "%10"), c

    for line in lines.split(","):
        word, _, array = line.partition(" ")
        if word == "barrier":
            out.append("barrier")
            continue
        if word == "leave":
            out += ["if %12 {", "continue", "} else {", "yield", "}"]
            continue
        n, row, value = int(array), f"%{next(numbers)}", f"%{next(numbers)}"
        last = f"%{next(numbers)}"
        out.append(f"{last} = const {15 if word == 'part' else 16} : i32")
        if word == "maybe":
            out.append("if %12 {")
        out.append(f"for %3, {last} body({row}: i32) {{")
        if word in ("write", "part", "maybe"):
            place, at = cell(n, "%2", row)
            out += [f"{value} = convert %13 : f32", f"store {place}, {at}, {value}"]
        else:
            other, total = (f"%{next(numbers)}" for _ in range(2))
            out.append(f"{other} = xor %2, {'%7' if word == 'far' else '%3'} : i32")
            place, at = cell(n, other, row)
            sum_ = f"%{next(numbers)}"
            out += [f"{value} = load {place}, {at} : f32", f"{total} = load %1, %2 : f32"]
            out += [f"{sum_} = add {total}, {value} : f32", f"store %1, %2, {sum_}"]
        out += ["continue", "}"]
        if word == "maybe":
            out += ["yield", "} else {", "yield", "}"]
    return "\n".join([*out, "continue", "}", "return", "}"]) + "\n"


@pytest.mark.parametrize("lines", LOOPS)
def test_arrays_within_the_turns_of_a_loop(lines: str) -> None:
    """Where they share bytes, the interpreter sees no race, no cell that nothing wrote, and the
    same results; where it does see one of these, they must not."""
    why, shared = LOOPS[lines]
    block = place_arrays(parse_kernel(loop_text(lines, None)))
    assert block.shared == shared, why
    trouble = False
    for first in (1, -1):
        results = []
        for places in (None, [0, 0]):
            x, y = np.full(1, first, np.float32), np.zeros(32, np.float32)
            report = interp.run(parse_kernel(loop_text(lines, places)), [x, y], (1, 1, 1))
            results.append((bool(report.problems), y.tolist()))
        trouble |= results[1][0] or results[0] != results[1]
    # The pass asks for a barrier before any read, which an invocation's own cells do not need.
    assert trouble == (not shared and why != "read before a barrier")


def test_loops_within_a_loop() -> None:
    """Each turn of the outer loop goes through the inner one, whose turns keep nothing."""
    inner = "for\nput 0\nbarrier\nuse 0\nbarrier\nput 1\nbarrier\nuse 1\nbarrier\nend"
    assert place_arrays(kernel([K, K], f"for\n{inner}\nend")).shared
    assert not place_arrays(kernel([K, K], f"for\n{inner}\nuse 1\nend")).shared
    assert not place_arrays(kernel([K, K], f"{inner}\nuse 1")).shared
