"""Random damage to the text of kernel IR, and to JSON: words, marks, bytes, nesting, numbers."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from typing import Any

WORDS = (
    *("if", "else", "{", "}", "(", ")", ",", ":", "=", "for", "while", "switch", "cond", "body"),
    *("yield", "break", "continue", "return", "condition", "barrier", "%0", "%1", "%99999", "%x.3"),
    *("f32", "i32", "f32x4", "bool", "buffer<f32,read>", "workgroup<f32,4>", "workgroup<f32,x>"),
    *("private<i8,99999999999999999999>", "buffer<f32,odd>", "fragment<f16,a,16x16>", "f32x3"),
    *("fragment<f16,a,99999999999x1>", "const", "add", "load", "store", "alloc", "splat", "vector"),
    *("0", "-1", "1.5", "nan:0x7fc00000", "nan:0x" + "f" * 5000, "inf", "9" * 5000, "true"),
    *("1e999", '"text"', '"\\u0000"', '"unclosed', "[1, 2]", "[" * 300, "{a=1}", "{lanes=4}"),
    *('{kind="add"}', "{dim=7}", "{dim=" + "9" * 5000 + "}", "{site=0}", "kernel", "param"),
    *("grid", "site", "fast"),
    *("subgroup", "index", "workgroup", "constexpr", "may_alias", "slot", "scalar", "é"),
    *("٣", "\x00", "\u2028", "\ufeff", "nv_mma", "subgroup_reduce", "extract", "shuffle"),
    *("convert", "bitcast"),
)  # fmt: skip
_TOKEN = re.compile(r"\s+|[%\w.<>+-]+|\"[^\"]*\"|.", re.DOTALL)


def changed(text: str, rng: random.Random) -> str:
    """The text with one to four random changes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(_CHANGES)(text, rng)
    return text


def _tokens(text: str, rng: random.Random) -> str:
    """Words dropped, doubled, replaced by others, or in each other's place."""
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(5):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(other, tokens[at])
        case 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 3:
            tokens[at] = tokens[other]
        case _:
            tokens[at] = rng.choice(WORDS)
    return "".join(tokens)


def _lines(text: str, rng: random.Random) -> str:
    """Lines dropped, doubled, or elsewhere."""
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            del lines[at]
        case 1:
            lines.insert(other, lines[at])
        case _:
            lines[at], lines[other] = lines[other], lines[at]
    return "\n".join(lines)


def _bytes(text: str, rng: random.Random) -> str:
    """A flipped bit."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def _cut(text: str, rng: random.Random) -> str:
    return text[: rng.randrange(len(text) + 1)]


def _numbers(text: str, rng: random.Random) -> str:
    """Another number in the place of one."""
    found = list(re.finditer(r"-?\b\d+", text))
    if not found:
        return text
    place = rng.choice(found)
    odd = (
        "0",
        "-1",
        "1",
        "2",
        "7",
        "4294967296",
        str(-(2**63)),
        "1" + "0" * 40,
        "9" * 5000,
        "0x10",
    )
    return text[: place.start()] + rng.choice(odd) + text[place.end() :]


def _nest(text: str, rng: random.Random) -> str:
    """A line within the arms of so many ifs, lists or regions."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    count = rng.choice((3, 150, 300, 5000))
    opening, closing = rng.choice(
        (("if %0 {", "yield\n} else {\nyield\n}"), ("{", "}"), ("[", "]"))
    )
    joint = rng.choice(("\n", ""))
    lines[at] = joint.join([opening] * count + [lines[at]] + [closing] * count)
    return "\n".join(lines)


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    *(_tokens, _tokens, _tokens, _tokens, _lines, _bytes, _cut, _numbers, _numbers, _nest),
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 1e308, float("nan"), float("inf"), 2**31, 2**64, -(2**70)),
    *("", "x", "f32", "\x00", "../x", "/etc/passwd", "a" * 10_000, [], [1], [[]], {}, {"a": 1}),
    *([None], ["x"] * 1000, [1, 2, 3, 4], {"schema": 1}, ["grid", 0], ["count", "x"], "\ud800"),
)


def damaged(value: Any, rng: random.Random) -> Any:
    """A JSON value with one to three of its parts dropped, doubled, or something else."""
    made = json.loads(json.dumps(value))
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(made))
        if not places:
            return copy.deepcopy(rng.choice(ODD))
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("", "extra", "schema", "x" * 1000))] = copy.deepcopy(
                    rng.choice(ODD)
                )
            case 2 if isinstance(holder, list):
                holder.append(json.loads(json.dumps(holder[key])))
            case 3:
                for _ in range(rng.choice((1, 5, 250))):
                    holder[key] = [holder[key]]
            case 4:
                other_holder, other_key = rng.choice(places)
                holder[key] = (
                    json.loads(json.dumps(other_holder[other_key]))
                    if _has(other_holder, other_key)
                    else None
                )
            case _:
                holder[key] = copy.deepcopy(rng.choice(ODD))
    return made


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(value: Any) -> Any:
    """Every part of a JSON value, by what holds it and under which key."""
    left = [value]
    while left:
        holder = left.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, part in items:
            yield holder, key
            if isinstance(part, dict | list):
                left.append(part)
