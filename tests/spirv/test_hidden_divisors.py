"""Divisors that a compiler may know are hidden from it where they may be 0 or -1, no others are."""

from __future__ import annotations

import pytest

from gristmill.backends.divisors import divisors
from gristmill.ir.core import walk
from kernel_text import kernel

HEAD = """
  %2 = local_id {dim=0} : i32
  %3 = load %0, %2 : i32
  %4 = const 0 : i32
  %5 = const 7 : i32
  %6 = splat %3 : i32x2
"""
TAIL = """
  %21 = extract %20 {lane=0} : i32
  store %1, %2, %21
  return"""
HIDDEN = {
    "a vector of which a lane is 0": "%10 = vector %4, %5 : i32x2",
    "a vector of which a lane is -1": "%9 = const -1 : i32\n%10 = vector %5, %9 : i32x2",
    "what a branch chose": (
        "%8 = lt %3, %4 : bool\n%9 = if %8 : i32 {\nyield %4\n} else {\nyield %5\n}\n"
        "%10 = splat %9 : i32x2"
    ),
    "what nothing wrote": (
        '%8 = alloc {name="p"} : private<i32,2>\n%9 = load %8, %4 : i32\n%10 = splat %9 : i32x2'
    ),
    "what a loop carries": (
        "%9 = for %4, %3, %4 : i32 body(%7: i32, %8: i32) {\ncontinue %5\n}\n%10 = splat %9 : i32x2"
    ),
}
PLAIN = {
    "a vector of safe constants": "%10 = vector %5, %5 : i32x2",
    "what is loaded": "%10 = splat %3 : i32x2",
}


@pytest.mark.parametrize("name", [*HIDDEN, *PLAIN])
@pytest.mark.parametrize("op", ["floordiv", "mod"])
def test_divisors_that_are_hidden(op: str, name: str) -> None:
    divisor = (HIDDEN | PLAIN)[name]
    body = f"{HEAD}{divisor}\n%20 = {op} %6, %10 : i32x2{TAIL}"
    made = kernel("x: i32 buffer read, y: i32 buffer write", body)
    (division,) = [o for o in walk(made.body) if o.name == op]
    assert divisors(made) == ({division.operands[1].id} if name in HIDDEN else set())
