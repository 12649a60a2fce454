"""Print and parse are inverse on random kernels, and the verifier accepts what it should."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.fuzz.generate import Features, random_kernel
from gristmill.ir import parse
from gristmill.ir.core import Kernel, renumber, walk
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.interface import bits_float, const_bits
from gristmill.ir.text import ParseError, line_locs, parse_kernel, print_kernel
from gristmill.ir.verify import verify

WIDE = Features(i8=True, i16=True, i64=True, f16=True, bf16=True, f64=True, subgroup=8, faults=True)


def random_one(seed: int) -> Kernel:
    return random_kernel(np.random.default_rng(seed), WIDE).kernel


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_kernels_round_trip(seed: int) -> None:
    kernel = random_one(seed)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert print_kernel(again) == text
    assert renumber(kernel) == kernel
    verify(again)


def test_locations_follow_the_lines(rng: np.random.Generator) -> None:
    kernel = parse_kernel(print_kernel(random_one(int(rng.integers(1 << 32)))), "a.kir")
    for line, loc in line_locs(kernel).items():
        assert (loc.file, loc.line) == ("a.kir", line)


def test_damaged_text_gives_parse_errors_only(rng: np.random.Generator) -> None:
    text = print_kernel(random_one(int(rng.integers(1 << 32))))
    for _ in range(60):
        at = int(rng.integers(len(text)))
        damaged = text[:at] + str(rng.choice(list('{}()%:=,x9 \n"'))) + text[at + 1 :]
        try:
            verify(parse_kernel(damaged))
        except ParseError:
            continue
        except Exception as error:
            assert type(error).__name__ == "VerifyError", damaged  # noqa: PT017
    with pytest.raises(ParseError):
        parse_kernel(text[: len(text) // 2])


ODD_LINES = (
    "%3 = const : i32", "%3 = const 5", "const 5 : i32", "%3 = const 5.5 : i32",
    "%2 = const 5 : i32",
    "%3 = const 300 : i8", "%3 = add 5 : i32", "%3 = add %x.1, %2", "add %x.1, %2 : i32",
    "%3 = add %x.1, %9 : i32", "%3 = add %x.1, %y.2 : i32", "%3 = add %1, %2 : i32",
    "%3 = add %x.1, %2 : f32", "%3 = add %x.1, %2 : i33", "%3 = add %x.1 : i32", "%3 = if %2 : i32",
    "%3 = extract %x.1 {lane=0} : i32", "%3 = load %b.0, %2 {lanes=4} : i32x4",
    "%3 = global_id : i32",
    "%3 = load %b.0, %2 {lanes=x} : i32", "%3 = sum %2 : i32", "  %h.3 =  neg %2 : i32",
    "return %2", "vector", "%3 = vector : i32x2",
    "%3 = neg %2 : i32 {", "%3 = neg %2 : i32 x", "%3, %4 = neg %2 : i32", "%x.y.3 = neg %2 : i32",
    *(
        f"{head}\n  {end}\n  }}{tail}"
        for end, tail in (("yield", " else {\n  yield\n  }"), ("yield", ""), ("continue", ""))
        for head in (
            "if %2 {", "if %2{", "if %9 {", "if %2, %x.1 {", "if %2 : {", "if %2 :  {", "if {",
            "%3 = if %2 : i32 {", "%3, %h.4 = if %2 : i32, f32x4 {", "%3 = if %2 : i32, i32 {",
            "%2 = if %2 : i32 {", "%3 = if %2 {", "%x = if %2 : i32 {", " = if %2 {",
            "for %x.1, %2 body(%i.3: i32) {", "for %x.1, %2 body(%i.2: i32) {",
            "for %x.1, %2 body(%i.3) {", "for %x.1, %2 (%i.3: i32) {", "for %x.1, %2 body() {",
            "for %x.1, %2 body(%i.3: i32, ) {", "for %x.1, %2 body(%i.3: i32 {",
            "%3 = for %x.1, %2, %2 : i32 body(%i.4: i32, %c.5: i32) {", "for %x.1, %2 {",
            "for %x.1, %2 body(%i.3: i32, %i.3: i32) {", "if %2 {dim=0} {", "for %x.1,%2 body {",
        )
    ),
)  # fmt: skip


@pytest.mark.parametrize("line", ODD_LINES)
def test_lines_read_at_once_and_token_by_token_say_the_same(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "kernel k s\nparam b: i32 buffer readwrite\nparam x: i32 scalar\nworkgroup 1 1 1\n"
        "index i32\nbody(%b.0: buffer<i32,readwrite>, %x.1: i32) {\n  %2 = const -7 : i32\n"
        f"  {line}\n  store %b.0, %x.1, %2\n  return\n}}\n"
    )
    quick = _outcome(text)
    _token_by_token(monkeypatch)
    assert quick == _outcome(text)


def test_damaged_lines_are_refused_alike(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = print_kernel(random_one(int(rng.integers(1 << 32))))
    for _ in range(30):
        at, kept = int(rng.integers(len(text))), int(rng.integers(2))
        damaged = text[:at] + str(rng.choice(list("{}()%:=,x9. "))) + text[at + kept :]
        quick = _outcome(damaged)
        with monkeypatch.context() as patch:
            _token_by_token(patch)
            assert quick == _outcome(damaged), damaged


def _token_by_token(patch: pytest.MonkeyPatch) -> None:
    for name in ("plain_op", "opening"):
        patch.setattr(parse._Parser, name, lambda parser, line: None)


def _outcome(text: str) -> object:
    """A kernel with its hints and places, or the refusal."""
    try:
        kernel = parse_kernel(text)
    except ParseError as error:
        return str(error)
    ops = list(walk(kernel.body))
    return (
        kernel,
        [[v.hint for v in (*op.operands, *op.results)] for op in ops],
        [o.loc for o in ops],
    )


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_an_integer_constant_is_rounded_once(name: str) -> None:
    dtype = DTYPES[name]
    rng = random.Random(3)
    top = {"f16": 15}.get(name, 120)
    values = [2**60 + 2**36 + 1, 2**60 + 2**36, 2**60 + 2**36 - 1, 2**53 + 1, 0, 7, 2**100 + 2**47]
    values += [rng.getrandbits(rng.randrange(1, top)) for _ in range(500)]
    values += [(rng.getrandbits(12) << 48) + (1 << 47) + rng.randrange(-1, 2) for _ in range(500)]
    for value in values:
        if value.bit_length() > top:
            continue
        for signed in (value, -value):
            bits = const_bits(signed, dtype)
            found = Fraction(bits_float(bits, dtype))
            around = [Fraction(bits_float(b, dtype)) for b in (bits - 1, bits + 1) if signed]
            assert all(abs(found - signed) <= abs(other - signed) for other in around), signed
            if any(abs(found - signed) == abs(other - signed) for other in around):
                assert bits % 2 == 0, signed


def test_a_kernel_as_a_string_is_its_text(rng: np.random.Generator) -> None:
    kernel = random_one(int(rng.integers(1 << 32)))
    assert parse_kernel(str(kernel)) == kernel
    assert f"{kernel}".startswith(f"kernel {kernel.name} ")


@pytest.mark.parametrize("name", ["f8e4m3", "f8e5m2"])
def test_every_constant_of_8_bits_comes_back(name: str) -> None:
    lines = [f"  %{n + 1} = const nan:{n:#x} : {name}\n" for n in range(256)]
    head = f"kernel k t\nparam y: {name} buffer write\nworkgroup 1 1 1\nindex i32\n"
    text = f"{head}body(%y.0: buffer<{name},write>) {{\n{''.join(lines)}  return\n}}\n"
    kernel = parse_kernel(text)
    assert [op.attr("bits") for op in kernel.body.ops[:-1]] == list(range(256))
    printed = print_kernel(kernel)
    assert printed.count("nan:") == {"f8e4m3": 2, "f8e5m2": 6}[name]
    assert parse_kernel(printed) == kernel
