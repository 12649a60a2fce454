"""Programs that ask for too much get an error that says so, at their line, within seconds."""

# ruff: noqa: E501  (kernel sources)

from __future__ import annotations

import time

import pytest

from gristmill.backends.trace import trace
from gristmill.ir.lang import Diagnostic
from gristmill.ir.limits import MAX_INLINE, MAX_OPS, MAX_PARAMS

HEAD = """from __future__ import annotations
import math
from gristmill.ir.lang import *

HUGE = 2**100_000
LIST = [0] * 10**6
WORD = "a" * 10**6

@device
def same(x):
    return x

@device
def again(x):
    return again(x)

{more}
@kernel(workgroup=lambda: 64, grid=lambda: {grid})
def k({params}):
    i = global_id(0)
{body}
"""
SECONDS = 30.0  # of a processor: what the slowest takes, ten times over


def traced(
    body: str, more: str = "", params: str = "x: ReadWrite[f32], n: i32", grid: str = "1"
) -> str:
    """The text of a kernel whose body is given, traced as a build does it."""
    body = "\n".join("    " + line for line in body.split("\n"))
    text = HEAD.format(body=body, more=more, params=params, grid=grid).encode()
    return trace({"kernels/m.py": text}, "m", "k", "f", {})[0].decode()


def nested(depth: int, line: str, last: str) -> str:
    """A line within itself, `depth` times."""
    lines = [" " * n + line.format(n=n) for n in range(depth)]
    return "\n".join([*lines, " " * depth + last])


def chain(calls: str, count: int) -> str:
    """Device functions g0, g1, ...: each calls the next one as `calls` says."""
    texts = [f"@device\ndef g{n}(x):\n    return {calls.format(n=n + 1)}\n" for n in range(count)]
    return "\n".join([*texts, f"@device\ndef g{count}(x):\n    return x\n"])


EMPTY_LOOPS = "for a in static_range(10**4):\n    for b in static_range(10**4):\n        pass"
DOUBLED = "t = (1,)\nfor a in static_range(80):\n    t = "
REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "a huge unrolled loop": ({"body": "for a in static_range(10**30):\n    pass"}, "use range"),
    "unrolled loops in unrolled loops": ({"body": EMPTY_LOOPS}, "unroll less"),
    "an unrolled loop with a body": ({"body": "s = 0.0\nfor a in static_range(10**6):\n    s += x[i + a]"}, f"over {MAX_OPS} operations"),
    "an unrolled loop over a tuple": ({"body": "for a in static_range(10**4):\n    for b in (1,) * 10**4:\n        pass"}, "unroll less"),
    "a tuple of a million": ({"body": "for a in (1,) * 10**6:\n    pass"}, "too great"),
    "ifs within one another": ({"body": nested(60, "if n > {n}:", "g0(x)"), "more": "@device\ndef g0(x):\n" + nested(60, " if x[{n}] > 0.0:", "   x[0] = 1.0") + "\n"}, "nest deeper than 100"),
    "elifs": ({"body": "if n == 0:\n    x[i] = 0.0\n" + "\n".join(f"elif n == {k}:\n    x[i] = {k}.0" for k in range(1, 400))}, "nest deeper"),
    "a long sum": ({"body": "s = " + "+".join(["x[i]"] * 900)}, "expressions nest deeper"),
    "minus signs": ({"body": "s = " + "-" * 900 + "x[i]"}, "nest deeper"),
    "a call of itself": ({"body": "x[i] = again(x[i])"}, "calls itself"),
    "many functions in a row": ({"body": "x[i] = g0(x[i])", "more": chain("g{n}(x)", 80)}, f"deeper than {MAX_INLINE}"),
    "functions that call twice": ({"body": "x[i] = g0(x[i])", "more": chain("g{n}(x) + g{n}(x)", 40)}, f"over {MAX_OPS} operations"),
    "functions that call twice for nothing": ({"body": "t = g0(1)", "more": chain("g{n}(2 * x) + g{n}(2 * x + 1)", 40)}, "fewer device functions"),
    "a call with a million arguments": ({"body": "t = same(*((1,) * 60000), *((1,) * 60000))"}, "same"),
    "an int from outside": ({"body": "x[i] = HUGE"}, "100001 bits exceeds 4096"),
    "a list from outside": ({"body": "t = LIST"}, "tuple of tuples has over 65536"),
    "a string from outside": ({"body": "print(WORD)"}, "a string of 1000000 characters"),
    "an int literal": ({"body": "t = 0x" + "f" * 30_000}, "120000 bits exceeds"),
    "a power": ({"body": "t = 10**10**10"}, "too great"),
    "a shift": ({"body": "t = 1 << (1 << 60)"}, "too great"),
    "a product of products": ({"body": "t = 3\nfor a in static_range(60):\n    t = t * t"}, "exceeds 4096 bits"),
    "a squared constant": ({"body": "t = 3\nfor a in static_range(60):\n    t = square(t)"}, "exceeds 4096 bits"),
    "a repeated string": ({"body": "t = 'a' * 10**12"}, "too great"),
    "a string repeated from the left": ({"body": "t = 10**12 * 'a'"}, "too great"),
    "a formatted string": ({"body": "t = '%0999999999d' % 1"}, "'%' of a string"),
    "a tuple that doubles by plus": ({"body": DOUBLED + "t + t"}, "over 65536 items"),
    "a tuple that doubles by nesting": ({"body": DOUBLED + "(t, t)"}, "over 65536 items"),
    "a tuple that deepens": ({"body": "t = 1\nfor a in static_range(10**5):\n    t = (t,)"}, "unroll less"),
    "a float of an int": ({"body": "t = float(10**400)"}, "too large"),
    "an int of an infinity": ({"body": "t = int(1e999)"}, "infinity"),
    "a rounded infinity": ({"body": "t = round(1e999)"}, "infinity"),
    "a float of a word": ({"body": "t = float('one')"}, "could not convert"),
    "a slice of halves": ({"body": "t = (1, 2, 3)[0.5:]"}, "a bound of a slice must be an int"),
    "a slice in steps of 0": ({"body": "t = (1, 2, 3)[::0]"}, "the step of a slice is 0"),
    "the least of words and numbers": ({"body": "t = min(1, 'a')"}, "min takes numbers"),
    "a huge workgroup array": ({"body": "a = workgroup_array(f32, 10**12)"}, "exceeds 1048576 bytes"),
    "a beyond huge workgroup array": ({"body": "a = workgroup_array(f32, (2**4000, 2**4000, 2**4000))"}, "array of over 2\\*\\*64 bytes"),
    "many private arrays": ({"body": "\n".join(f"a{n} = private_array(f32, 4096)" for n in range(5))}, "81920 with the others"),
    "thousands of small arrays": ({"body": "for n in static_range(5000):\n    a = private_array(i8, 1)"}, "over 1024 arrays"),
    "an array of many dimensions": ({"body": "a = private_array(i8, (1,) * 50)"}, "1 to 8 dimensions"),
    "a huge register array": ({"body": "a = registers(f32, 10**9)"}, "exceeds 4096"),
    "thousands of register arrays": ({"body": "for n in static_range(5000):\n    a = registers(f32, 4096)"}, "unroll less"),
    "thousands of parameters": ({"body": "pass", "params": ", ".join(f"p{n}: Read[f32]" for n in range(2000))}, f"over {MAX_PARAMS} parameters"),
    "thousands of buffers": ({"body": "pass", "params": ", ".join(f"p{n}: Buffers[Read[f32], 64]" for n in range(90))}, f"over {MAX_PARAMS} parameters"),
    "a huge tuple of buffers": ({"body": "pass", "params": "p: Buffers[Read[f32], 10**9]"}, "1 to 64 items"),
    "a long name": ({"body": f"{'v' * 10_000} = 1"}, "a name of over 200 bytes"),
    "a huge grid": ({"body": "pass", "grid": "*".join(["(1 << 4000)"] * 30)}, "bits exceeds 4096"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_too_much_is_refused_at_its_line(name: str) -> None:
    program, words = REFUSED[name]
    start = time.process_time()
    with pytest.raises(Diagnostic, match=words) as caught:
        traced(**program)
    assert time.process_time() - start < SECONDS
    assert caught.value.file == "kernels/m.py"
    assert caught.value.line > 1
    assert len(str(caught.value)) < 2000
