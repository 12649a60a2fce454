"""Loops about register arrays: their bodies are traced once, where the guess of what they change is
right, and a wrong guess leaves no trace."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.ir.lang import Diagnostic, loops
from gristmill.ir.text import print_kernel

HEAD = """
@device
def bump(r, n):
    for j in static_range(2):
        r[j] += n
@device
def whole(r, n):
    for j in static_range(4):
        r[j] += n
@device
def around(n, beside, to):
    whole(to, n + i32(beside[0, 0]))
@device
def maybe(r, n, DO):
    if DO:
        r[0] += n
@kernel(workgroup=lambda: 4)
def k(x: Read[i32], y: Write[i32], n: i32):
    r, s = registers(i32, 4, 1), registers(f32, (2, 2), 0)
    total = n
"""
TAIL = """
    for j in static_range(4):
        y[j] = r[j] + i32(s[j // 2, j % 2]) + total
"""
RIGHT = {
    "by a function": "whole(r, i)",
    "by a function of a function, which reads another": "around(i, to=r, beside=s)",
    "all cells": "for j in static_range(4):\n    r[j] += i",
    "in an inner loop": "for m in range(n):\n    for j in static_range(4):\n        r[j] += i * m",
    "two arrays": "for j in static_range(4):\n    r[j] += i\n    s[j // 2, j % 2] = f32(i)",
    "no cell": "y[i] = r[0]",
    "a variable": "total += i\nfor j in static_range(4):\n    r[j] += total",
    "a break": (
        "for j in static_range(4):\n    r[j] += i\nif i > 3:\n    break\n"
        "for j in static_range(4):\n    r[j] *= 2"
    ),
}
WRONG = {
    "a function that is told not to": "maybe(r, i, False)\ny[i] = r[0]",
    "one cell of an array": "r[2] += i",
    "a device function writes": "bump(r, i)",
    "a device function writes more": (
        "for j in static_range(4):\n    s[j // 2, j % 2] += 1\nbump(r, i)"
    ),
    "a variable that stays": "total = total\nfor j in static_range(4):\n    r[j] += i",
    "an inner loop writes one": "for m in range(n):\n    r[1] += m\n    bump(r, m)",
    "an array and a private array": (
        "p = private_array(i32, 4)\np[i] = i\nassert i < 9\nbump(r, p[i % 4])\nassert i < 8"
    ),
}
REFUSED = {
    "an undeclared name": "for j in static_range(4):\n    r[j] += nothing",
    "a cell of another": "for m in range(n):\n    for j in static_range(4):\n        r[j] = 0.5",
}


def program(load: Any, body: str) -> Any:
    inner = "\n".join(f"        {line}" for line in body.split("\n"))
    return load(f"{HEAD}    for i in range(n):\n{inner}{TAIL}").k


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_right_guess_needs_no_second_trace(
    load: Any, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = program(load, body)
    text = print_kernel(_learning(k, monkeypatch))

    def learn(*_: Any) -> Any:
        raise AssertionError("the body is traced for its changes")

    with monkeypatch.context() as patch:
        patch.setattr(loops, "_learn", learn)
        assert print_kernel(k.trace("test")) == text


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_a_wrong_guess_leaves_no_trace(
    load: Any, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = program(load, body)
    expected = _learning(k, monkeypatch)
    found = k.trace("test")
    assert print_kernel(found) == print_kernel(expected)
    assert found == expected


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_refusal_speaks_as_without_a_guess(
    load: Any, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = program(load, body)
    with pytest.raises(Diagnostic) as expected:
        _learning(k, monkeypatch)
    with pytest.raises(Diagnostic) as found:
        k.trace("test")
    assert str(found.value) == str(expected.value)


def _learning(k: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The trace of a kernel that guesses nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(loops, "guess", lambda *_: None)
        return k.trace("test")
