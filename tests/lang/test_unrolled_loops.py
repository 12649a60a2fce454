"""Unrolled loops whose iterations are copied from one: as if each had been traced."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.core import Kernel, walk
from gristmill.ir.lang import Diagnostic, ranges, specialize, unrolled

HEAD = """
@device
def put(r, n, v):
    r[n] = v + n
@device
def twice(v):
    return 2 * v
@kernel(workgroup=lambda: 8)
def k(x: Read[i32], y: ReadWrite[i32], z: ReadWrite[f32], n: i32):
    lid = local_id(0)
    r, s = registers(i32, 8, 1), registers(i32, 8, 2)
    total, far, odd, pair = x[lid], 0.0, f32(lid), (lid, 1)
    wide, known = i32x4(3), 3
    tile = workgroup_array(i32, (72, 32), swizzle=True)
    for j in static_range(8):
        s[j] = x[lid] + j
"""
TAIL = """
    total += j + known
    for j in static_range(8):
        y[8 * lid + j] = r[j] + 3 * s[j] + total + wide[1]
    z[lid] = far + odd
"""
# What one iteration can say for the others.
COPIED = {
    "the number is a constant": "total += j",
    "arithmetic of numbers": "total += (2 * j + 1) * lid - (7 - (j + 1)) + (j + j) * n",
    "the number as a float": "odd = odd * j + j",
    "the number as a vector": "wide = wide + j",
    "a cell": "r[j] = r[j] * 2 + lid",
    "two arrays": "r[j] = s[j] + total\ns[j] = r[j] - 1",
    "a branch about a cell": "if lid + j < n:\n    r[j] = s[j] - total\n    total = total + s[j]",
    "a branch that stores": "if lid + j < n:\n    y[8 * lid + j] = s[j]",
    "a choice": "total = s[j] if lid > j else total",
    "a loop inside": "for m in range(n):\n    r[j] += m * lid\n    total ^= r[j]",
    "an inner unrolled loop": "for m in static_range(5):\n    total += (m + 1) * s[j]",
    "both numbers": "for m in static_range(4):\n    total += s[m] * lid\nr[j] = total",
    "the outer number": "for m in static_range(5):\n    u = j\n    total += m\ntotal += u * lid",
    "two numbers that meet": "for m in static_range(5):\n    total += (j - m) * lid",
    "a function": "r[j] = twice(s[j]) + twice(total)",
    "a function of a number": "total = twice(total) - twice(lid + j)",
    "a variable of its own": "u = s[j] + lid\nr[j] = u * u",
    "an assertion": "assert s[j] < 1000\ntotal += 1",
    "a comparison": "total = total + select(lid == j, 1, 0)",
    "a bound": "total = total + min(lid + j * 2, n)",
}
# What has to be traced for each.
TRACED = {
    "a decision": "if j < 4:\n    total += j",
    "a condition on it": "total += 5 if j == 3 else 7",
    "another cell": "if lid > 2:\n    r[7 - j] = s[j]",
    "the cell before": "total += s[(j + 7) % 8]\nr[j] = total",
    "an array by another name": "q = r\nq[j] = s[j]\ntotal += r[1]",
    "a known cell that it writes": "r[3] = r[3] + s[j]",
    "a known cell that a branch writes": "if lid > 2:\n    r[3] = total\nr[j] = r[j] + s[j]",
    "a known cell beside its own": "r[j] = s[j]\ntotal += r[5]",
    "its own cell and another": "r[j] = lid\nr[7 - j] = total",
    "an array that begins anew": "q = private_array(i32, 4)\nq[lid % 4] += 1\ntotal += q[lid % 4]",
    "rows of a swizzled tile": "tile[lid + 8 * j, 0] = total",
    "two that change places": "total, odd = odd, total",
    "a constant that is changed at times": "if lid > j:\n    known = 5",
    "a decision in a loop": "for m in range(n):\n    if j < 3:\n        total += m",
    "a function with the cell": "put(r, j, lid)",
    "the size of an array": "q = registers(i32, j + 1, 1)\ntotal += q[0]",
    "an array of its own": "q = private_array(i32, 4)\nq[lid % 4] = j + total\ntotal += q[j % 4]",
    "a sum of no type yet": "u = 0\nfor m in range(n):\n    u = u + j\ntotal += u",
    "a square": "total += j * j",
    "identity": "total += 5 if j is known else 7",
    "a shift": "total += 1 << j",
    "a switch": "match j:\n    case 2:\n        total += 4\n    case _:\n        total -= 1",
    "truth": "total += lid if j else 9",
    "truth by name": "total += lid if bool(j - 3) else 9",
    "an equal tuple": "total += 4 if (1, j) == (1, 3) else 1",
    "one of some tuples": "total += 4 if (1, j) in ((1, 2), (1, 3)) else 1",
    "a text": "print(j, total)",
    "a change of type": "far = far + 1 if j < 1 else odd",
    "a tuple of numbers": "pair = (pair[1], j)\ntotal += pair[0]",
    "an early end": "if lid > j:\n    break\ntotal += 1",
    "a skipped rest": "if lid > j:\n    continue\ntotal += 1",
}
REFUSED = {
    "an undeclared name": "total += nothing",
    "a number that does not fit": "total += j * 400000000",
    "a cell that there is not": "r[j + 1] = 3",
    "a cell of another type": "r[j] = 0.5",
    "an index of nothing": "total += pair[j]",
}


def program(load: Any, body: str, loop: str = "static_range(8)") -> Any:
    inner = "\n".join(f"        {line}" for line in body.split("\n"))
    return load(f"{HEAD}    for j in {loop}:\n{inner}{TAIL}").k


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each loop that could be was copied, in order."""
    told: list[bool] = []
    real = unrolled.repeated

    def repeated(t: Any, *args: Any) -> bool:
        open_ = list(t.frame.exits), t.expression_depth, t.region_depth
        told.append(real(t, *args))
        assert open_ == (t.frame.exits, t.expression_depth, t.region_depth)
        return told[-1]

    monkeypatch.setattr(ranges, "repeated", repeated)
    return told


def traced_each(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel with every iteration traced."""
    with monkeypatch.context() as patch:
        patch.setattr(ranges, "repeated", lambda *args: False)
        made: Kernel = kernel.trace("s")
    return made


def work(kernel: Kernel) -> Counter[str]:
    """How many ops of each name there are, but for constants."""
    return Counter(op.name for op in walk(kernel.body) if op.name != "const")


def run(kernel: Kernel) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    args = [rng.integers(-50, 50, 8, np.int32), np.zeros(64, np.int32), np.zeros(8, np.float32)]
    report = interp.run(kernel, (*args, 6), (1, 1, 1))
    assert not report.problems
    return args


@pytest.mark.parametrize(
    "loop", ["static_range(8)", "static_range(1, 7)", "static_range(7, 0, -2)"]
)
@pytest.mark.parametrize("name", [*COPIED, *TRACED])
def test_copied_iterations_are_those_that_are_traced(
    load: Any, name: str, loop: str, copied: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = program(load, COPIED.get(name) or TRACED[name], loop)
    ours, each = kernel.trace("s"), traced_each(kernel, monkeypatch)
    for got, wanted in zip(run(ours), run(each), strict=True):
        assert np.array_equal(got, wanted, equal_nan=True)
    assert work(ours) == work(each)


@pytest.mark.parametrize("name", [*COPIED, *TRACED])
def test_what_differs_in_its_number_alone_is_copied(
    load: Any, name: str, copied: list[bool]
) -> None:
    program(load, COPIED.get(name) or TRACED[name]).trace("s")
    first, *_, loop, last = copied
    assert first
    assert last
    assert loop is (name in COPIED)


def test_a_loop_inside_that_is_undone_leaves_nothing_open(load: Any, copied: list[bool]) -> None:
    """Without register arrays a loop is traced at once, and nothing else undoes it."""
    kernel = load(
        """
@kernel(workgroup=lambda: 4)
def k(y: Write[i32], n: i32):
    total = 0
    for j in static_range(6):
        for m in range(n):
            if j < 3:
                total += m
    y[local_id(0)] = total
"""
    ).k
    kernel.trace("s")
    assert copied == [False]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_that_of_the_iteration_it_concerns(
    load: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = program(load, REFUSED[name])
    with pytest.raises(Diagnostic) as ours:
        kernel.trace("s")
    with pytest.raises(Diagnostic) as each:
        traced_each(kernel, monkeypatch)
    assert str(ours.value) == str(each.value)


def test_copies_count_as_operations(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = program(load, "total = total * 3 + lid", "static_range(60)")
    assert _counted(kernel.trace, monkeypatch) == _counted(
        lambda name: traced_each(kernel, monkeypatch), monkeypatch
    )


def test_endless_copies_are_refused(load: Any) -> None:
    endless = program(load, "total = total * 3 + j", "static_range(100000)")
    with pytest.raises(Diagnostic, match=r"over [0-9]+ operations"):
        endless.trace("s")


def _counted(trace: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many operations a tracer has counted."""
    tracers: list[Any] = []
    real = specialize.Tracer

    def made(*args: Any) -> Any:
        tracers.append(real(*args))
        return tracers[-1]

    with monkeypatch.context() as patch:
        patch.setattr(specialize, "Tracer", made)
        trace("s")
    return int(tracers[0].kept)
