"""The bound of loop turns: never below what a loop does, and not so far above that good launches
are refused."""

from __future__ import annotations

import textwrap

import pytest

from gristmill.ir.abi import evaluate
from gristmill.ir.core import Kernel
from gristmill.ir.turns import loop_turns

SOURCES = {
    "strided": "for i in range(local_id(0), n, 64):\n    y[0] = i",
    "a part of a buffer": (
        "run = ceil_div(len(y), num_groups(0))\nfirst = group_id(0) * run\n"
        "for i in range(first + local_id(0), min(first + run, len(y)), 64):\n    y[i] = i"
    ),
    "over all groups": (
        "for i in range(global_id(0), len(y), num_groups(0) * 64):\n    y[i] = i"
    ),
    "tiles": (
        "for k in range(0, n, 32):\n    for j in range(min(32, n - k)):\n        y[j] = k"
    ),
    "downwards": "for i in range(n - 1, -1, -2):\n    y[0] = i",
    "two after each other": "for i in range(n):\n    y[0] = i\nfor j in range(m):\n    y[1] = j",
    "arms that all take": (
        "if n > m:\n    for i in range(n):\n        y[0] = i\n"
        "else:\n    for j in range(m):\n        y[1] = j"
    ),
    "arms that some take": (
        "if local_id(0) > m:\n    for i in range(n):\n        y[0] = i\n"
        "else:\n    for j in range(m):\n        y[1] = j"
    ),
    "halving": "h = 32\nwhile h > 0:\n    y[h] = h\n    h = h // 2",
    "doubling": "h = 1\nwhile h < 64:\n    y[h] = h\n    h = h * 2",
    "counting while": (
        "c = 0\nwhile c < n and y[0] < 4:\n    y[1] = c\n    c += 1"
    ),
    "of data": "for i in range(y[0]):\n    y[1] = i",
    "of data, within a size": "for i in range(min(y[0], len(y))):\n    y[1] = i",
    "while of data": "c = 0\nwhile y[0] > c:\n    y[1] = c\n    c = c + y[2]",
    "none": "y[0] = n",
}  # fmt: skip


@pytest.fixture
def trace(tmp_path, monkeypatch):
    """`trace(body)`: the kernel with parameters y (i32 buffer), n and m (i32)."""
    import importlib.util
    import sys

    def made(body: str) -> Kernel:
        file = tmp_path / "turning.py"
        head = (
            "from __future__ import annotations\nfrom gristmill.ir.lang import *\n\n"
            "@kernel(workgroup=lambda: (64, 1, 1))\n"
            "def turning(y: ReadWrite[i32], n: i32, m: i32):\n"
        )
        file.write_text(head + textwrap.indent(body, "    ") + "\n")
        spec = importlib.util.spec_from_file_location("turning", file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "turning", module)
        spec.loader.exec_module(module)
        return module.turning.trace("t")

    return made


def bound(kernel: Kernel, n: int = 0, m: int = 0, count: int = 0, groups: int = 1) -> int:
    turns = loop_turns(kernel)
    assert turns.open == 0
    return evaluate(turns.bound, {"y": count}, {"n": n, "m": m}, (groups, 1, 1))


@pytest.mark.parametrize(
    ("name", "sizes", "turns"),
    [
        ("strided", {"n": 6400}, 100),
        ("strided", {"n": 6401}, 101),
        ("strided", {"n": -6401}, 0),
        ("a part of a buffer", {"count": 1 << 24, "groups": 256}, 1024),
        ("over all groups", {"count": 1 << 24, "groups": 256}, 1024),
        ("over all groups", {"count": 1, "groups": 100_000}, 1),
        ("tiles", {"n": 64}, 2 * (1 + 33)),
        ("downwards", {"n": 9}, 5),
        ("two after each other", {"n": 5, "m": 7}, 5 + 1 + 7),
        ("arms that all take", {"n": 5, "m": 7}, 7),
        ("arms that some take", {"n": 5, "m": 7}, 5 + 1 + 7),
        ("halving", {}, 6),
        ("doubling", {}, 6),
        ("counting while", {"n": 9}, 9),
        ("of data, within a size", {"count": 12}, 12),
        ("none", {}, 0),
    ],
)
def test_the_bound_is_what_the_loop_can_do(trace, name, sizes, turns):
    assert turns <= bound(trace(SOURCES[name]), **sizes) <= turns + 1


@pytest.mark.parametrize("name", ["of data", "while of data"])
def test_a_loop_that_depends_on_data_is_open(trace, name):
    assert loop_turns(trace(SOURCES[name])).open == 1
