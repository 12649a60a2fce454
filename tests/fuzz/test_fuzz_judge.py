"""The judge of random programs takes what a target may give, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.fuzz import judge
from gristmill.fuzz.judge import GRAPHICS, IEEE, UnjudgedError
from gristmill.fuzz.program import CaseError, Program, from_text, to_text
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.ops import ROWS
from gristmill.ir.text import parse_kernel, print_kernel


def program(op: str, t: str = "f32", after: str = "%4") -> Program:
    """out[0] = op(in[0], in[0])."""
    text = (
        f"kernel k t\nparam x: {t} buffer read\nparam y: {t} buffer readwrite\nworkgroup 1 1 1\n"
        f"index i32\nbody(%x.0: buffer<{t},read>, %y.1: buffer<{t},readwrite>) {{\n"
        f"  %2 = const 0 : i32\n  %3 = load %x.0, %2 : {t}\n  %4 = {op} : {t}\n"
        f"  {'' if after == '%4' else f'%5 = {after} : {t}'}\n  store %y.1, %2, "
        f"{'%4' if after == '%4' else '%5'}\n  return\n}}\n"
    ).replace("  \n", "")
    kernel = parse_kernel(text)
    storage = kernel.params[0].dtype.storage
    return Program(kernel, (np.zeros(1, storage), np.zeros(1, storage)), (1, 1, 1))


def verdict(p: Program, got: object, wanted: object, numerics: judge.Numerics = IEEE) -> list[str]:
    storage = p.kernel.params[1].dtype.storage
    both = [[None, np.array([v]).astype(storage)] for v in (got, wanted)]
    return [d.rule for d in judge.compare(p, both[0], both[1], numerics)]


def test_integers_are_compared_bit_for_bit() -> None:
    p = program("add %3, %3", "i64")
    assert verdict(p, 2**62, 2**62) == []
    assert verdict(p, 2**62 + 1, 2**62) == ["bits"]


@pytest.mark.parametrize("numerics", [IEEE, GRAPHICS])
def test_exact_floats_are_compared_bit_for_bit(numerics: judge.Numerics) -> None:
    p = program("add %3, %3")
    assert verdict(p, 1.0, 1.0, numerics) == []
    assert verdict(p, np.nextafter(np.float32(1), np.float32(2)), 1.0, numerics) == ["bits"]
    assert verdict(p, np.nan, np.nan, numerics) == []
    assert verdict(p, np.nan, 1.0, numerics) == ["bits"]
    assert verdict(p, 1.0, np.nan, numerics) == ["bits"]
    assert verdict(p, -0.0, 0.0, numerics) == []
    assert verdict(p, np.inf, -np.inf, numerics) == ["bits"]


def test_an_op_with_a_bound_may_be_off_by_it_and_by_no_more() -> None:
    p, one = program("exp %3"), np.float32(1)
    ulp = np.float32(2.0**-23)
    assert verdict(p, one + 2 * ulp, 1.0) == []  # 1.5, and half of one of the oracle
    assert verdict(p, one + 3 * ulp, 1.0) == ["ulp"]
    assert verdict(p, np.nan, 1.0) == ["ulp"]
    assert verdict(p, 1.0, np.nan) == ["ulp"]


def test_division_is_exact_but_on_graphics_devices() -> None:
    p, off = program("div %3, %3"), np.float32(1 + 2.0**-22)
    assert verdict(p, off, 1.0) == ["bits"]
    assert verdict(p, off, 1.0, GRAPHICS) == []


def test_only_graphics_devices_flush_denormals() -> None:
    p = program("exp %3")
    assert verdict(p, 0.0, 1e-39) == ["ulp"]
    assert verdict(p, 0.0, 1e-39, GRAPHICS) == []
    assert verdict(p, 0.0, 1e-30, GRAPHICS) == ["ulp"]


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_neighbours_are_a_step_apart_in_every_type(t: str) -> None:
    dtype = program("neg %3", t).kernel.params[0].dtype
    words = np.array([0x8002, 0x8001, 0x8000, 0, 1, 2], np.uint64)
    sign = np.uint64(1 << (dtype.bits - 1))
    words = np.where(words >= 0x8000, (words & np.uint64(0x7FFF)) | sign, words)
    values = judge._values(words.astype(f"u{dtype.bytes}").view(dtype.storage), dtype)
    assert judge.steps(values, dtype).tolist() == [-2, -1, 0, 0, 1, 2]


def test_an_inexact_result_that_is_computed_with_is_not_judged() -> None:
    p = program("exp %3", after="add %4, %4")
    with pytest.raises(UnjudgedError, match="exp"):
        verdict(p, 1.0, 1.0)


def test_a_nan_is_not_near_infinity() -> None:
    p = program("exp %3", "f16")
    nan = np.array([0x7C01], np.uint16).view(np.float16)[0]
    assert verdict(p, nan, np.inf) == ["ulp"]
    assert verdict(p, np.inf, nan) == ["ulp"]


def test_halves_are_off_by_one_at_most() -> None:
    p = program("exp %3", "f16")
    assert verdict(p, 1 + 2.0**-10, 1.0) == []
    assert verdict(p, 1 + 2.0**-9, 1.0) == ["ulp"]


def test_the_oracle_is_off_by_more_in_f64() -> None:
    assert judge.bound("gamma", DTYPES["f64"], IEEE) - (ROWS["gamma"].ulp64 or 0) == 12
    assert judge.bound("exp", DTYPES["f64"], IEEE) - (ROWS["exp"].ulp64 or 0) == 4


CARRIED = """\
  %5 = const 3 : i32
  %8 = for %2, %5, %4 : f32 body(%6: i32, %7: f32) {
    continue %3
  }"""


def test_an_inexact_result_is_what_a_loop_without_a_turn_gives() -> None:
    text = print_kernel(program("exp %3", after="neg %4").kernel)
    carried = text.replace("  %5 = neg %4 : f32", CARRIED).replace("%2, %5\n", "%2, %8\n")
    assert judge.bounds(parse_kernel(carried), IEEE) == {1: 2.0}


def test_a_program_survives_its_file() -> None:
    p = program("add %3, %3", "bf16")
    again = from_text(to_text(p, ["two\nremarks"]))
    assert (again.kernel, again.grid, again.variant) == (p.kernel, p.grid, p.variant)
    assert [a.tobytes() for a in again.inputs] == [a.tobytes() for a in p.inputs]


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.replace("#: ", "# "),
        lambda t: t.replace('"grid"', '"grit"'),
        lambda t: t.replace("[1, ", "[2, "),
        lambda t: t.replace("add %3", "add %9"),
        lambda t: t.replace("return", "retrun"),
        lambda t: t.replace("[1, 1, 1]", "[1, 1]"),
        lambda t: t.replace("[1, 1, 1]", "[1, 1, -1]"),
        lambda t: t.replace("[1, 1, 1]", "[65536, 65536, 1]"),
        lambda t: t.replace("[1, 1, 1]", "[1, 1, Infinity]"),
        lambda t: t.replace('"inputs": [', '"inputs": [[1], '),
        lambda t: t.replace("#: {", "#: " + "[" * 100_000),
        lambda t: t.replace("eNp", "e?p"),
    ],
)
def test_a_damaged_file_is_refused_by_type(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(CaseError):
        from_text(damage(to_text(program("add %3, %3"))))
