"""Fragments on the oracle, against numpy: products, rows, coordinates, and what it reports."""

from __future__ import annotations

import numpy as np
import pytest

from fragment_kernels import KINDS, LAYOUTS, attention_case, make_product, swizzled_case
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.interp import ProblemKind, run
from gristmill.ir.text import parse_kernel, print_kernel

SIZES = (4, 8, 16, 32, 64)


@pytest.mark.parametrize("kinds", KINDS, ids=lambda k: "-".join(map(str, k)))
@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
def test_product(kinds, layouts, rng: np.random.Generator) -> None:
    for size in SIZES:
        case = make_product(rng, kinds, layouts, size, bool(rng.integers(2)))
        assert parse_kernel(print_kernel(case.kernel)) == case.kernel
        report = run(case.kernel, case.args, (1, 1, 1))
        assert report.problems == ()
        assert not case.wrong(case.args[-1])


@pytest.mark.parametrize("size", SIZES)
def test_attention(size: int, rng: np.random.Generator) -> None:
    case = attention_case(rng, 64, size)
    report = run(case.kernel, case.args, (4, 1, 1))
    assert report.problems == ()
    assert not case.wrong(case.args[3])


@pytest.mark.parametrize("t", ["f16", "bf16", "i8", "u8"])
def test_swizzled_rows(t: str, rng: np.random.Generator) -> None:
    for size in SIZES:
        case, read = swizzled_case(rng, t, size)
        assert run(case.kernel, case.args, (1, 1, 1)).problems == ()
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


HEAD = (
    "kernel k test\nparam x: {t} buffer read\nparam y: {t} buffer readwrite\n"
    "workgroup 64 1 1\nindex i32\nsubgroup 32\n"
    "body(%0: buffer<{t},read>, %1: buffer<{t},readwrite>) {{\n"
    '  %2 = alloc {{name="tile"}} : workgroup<{t},512>\n'
    "  %3 = const 0 : i32\n  %4 = const 16 : i32\n  %5 = subgroup_id : i32\n"
    "  %6 = const 256 : i32\n  %7 = mul %5, %6 : i32\n  %8 = subgroup_lane : i32\n"
)
ACC = "fragment<{t},acc,16x16>"


def body(lines: str, x: np.ndarray, t: str = "f32") -> tuple[np.ndarray, tuple]:
    """Run `lines` on %x = a 16 x 16 accumulator of each of two subgroups; y and the problems."""
    text = (HEAD + lines + "  return\n}}\n").format(t=t)
    y = np.zeros(512, x.dtype)
    report = run(parse_kernel(text), [np.ascontiguousarray(x).reshape(-1), y], (1, 1, 1))
    return y.reshape(2, 16, 16), report.problems


LOAD = f'  %9 = fragment_load %0, %7, %4 {{{{layout="row"}}}} : {ACC}\n'
STORE = '  fragment_store %1, %7, %4, %20 {{layout="row"}}\n'


@pytest.mark.parametrize("t", ["f32", "f16", "i32", "u32"])
@pytest.mark.parametrize("kind", ["add", "max", "min"])
def test_rows(kind: str, t: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 50, (2, 16, 16)).astype(DTYPES[t].storage)
    if t == "f32" and kind != "add":
        x[0, 3, :] = np.nan
        x[0, 4, 2] = np.nan
        x[1, 5, 6] = np.inf
    lines = (
        LOAD
        + (
            f'  %10 = fragment_reduce %9 {{{{kind="{kind}"}}}} : fragment<{{t}},row,16x1>\n'
            f"  %20 = fragment_broadcast %10 : {ACC}\n"
        )
        + STORE
    )
    got, problems = body(lines, x, t)
    assert problems == ()
    with np.errstate(all="ignore"):
        expected = {"add": np.sum, "max": np.fmax.reduce, "min": np.fmin.reduce}[kind](x, axis=2)
    np.testing.assert_array_equal(got, np.repeat(expected[:, :, None], 16, 2).astype(x.dtype))


def test_coordinates_and_transposes() -> None:
    x = np.zeros((2, 16, 16), np.int32)
    lines = (
        "  %10 = fragment_coordinate {{dim=0}} : fragment<i32,acc,16x16>\n"
        "  %11 = fragment_coordinate {{dim=1}} : fragment<i32,acc,16x16>\n"
        "  %12 = splat %6 : fragment<i32,acc,16x16>\n"
        "  %13 = mul %10, %12 : fragment<i32,acc,16x16>\n"
        "  %20 = add %13, %11 : fragment<i32,acc,16x16>\n"
    )
    rows, columns = np.indices((16, 16))
    got, problems = body(lines + STORE, x, "i32")
    assert problems == ()
    assert (got == rows * 256 + columns).all()
    got, problems = body(lines + STORE.replace("row", "column"), x, "i32")
    assert (got == columns * 256 + rows).all()


def kinds_of(problems: tuple) -> set[ProblemKind]:
    return {p.kind for p in problems}


def test_out_of_bounds_gives_zeros_and_is_reported(rng: np.random.Generator) -> None:
    x = rng.standard_normal((2, 16, 16)).astype(np.float32)
    far = "  %19 = const 384 : i32\n" + LOAD.replace("%9", "%20").replace("%7", "%19")
    got, problems = body(far + STORE, x)
    assert kinds_of(problems) == {ProblemKind.OUT_OF_BOUNDS}
    assert "x[512], which has 512 elements" in problems[0].message
    assert (got[0, :8] == x[1, 8:]).all()
    assert not got[:, 8:].any()


def test_misaligned_index_and_stride_are_reported() -> None:
    x = np.zeros((2, 16, 16), np.float32)
    for bad in (LOAD.replace("%7", "%19"), LOAD.replace("%4", "%19")):
        lines = "  %19 = const 2 : i32\n" + bad.replace("%9", "%20") + STORE
        _, problems = body(lines, x)
        assert kinds_of(problems) == {ProblemKind.MISALIGNED}
        assert "multiples of 4 (16 bytes of f32)" in problems[0].message


ROUND = (
    LOAD + '  fragment_store %2, %7, %4, %9 {{layout="row"}}\n{between}'
    '  %20 = fragment_load %2, {where}, %4 {{layout="row"}} : ' + ACC + "\n"
)


def test_a_store_that_another_subgroup_loads_needs_a_barrier() -> None:
    x = np.arange(512, dtype=np.float32).reshape(2, 16, 16)
    other = "  %18 = sub %6, %7 : i32\n"
    for between in ("", "  barrier\n"):
        lines = ROUND.replace("{between}", between + other).replace("{where}", "%18")
        got, problems = body(lines + STORE, x)
        if between:
            assert problems == ()
            assert (got == x[::-1]).all()
        else:
            assert ProblemKind.READ_WRITE_RACE in kinds_of(problems)
            assert "a subgroup of a workgroup" in str(problems)


def test_an_operand_loaded_from_what_the_same_subgroup_stored_needs_a_barrier() -> None:
    x = np.zeros((2, 16, 16), np.float16)
    for between in ("", "  barrier\n"):
        lines = ROUND.replace("{between}", between).replace("{where}", "%7")
        lines = lines.replace("%20 = ", "%17 = ").replace(f": {ACC}\n", f": {ACC}\n", 1)
        head, _, tail = lines.rpartition(ACC)
        lines = head + "fragment<{t},a,16x16>" + tail + LOAD.replace("%9", "%20")
        _, problems = body(lines + STORE, x, "f16")
        assert bool(problems) is not bool(between)
        # An accumulator comes back to the lanes that stored it.
        same = ROUND.replace("{between}", between).replace("{where}", "%7")
        assert body(same + STORE, x, "f16")[1] == ()


def test_an_index_that_differs_between_lanes_is_reported() -> None:
    x = np.zeros((2, 16, 16), np.float32)
    # The verifier refuses it in the source; the interpreter sees what a pass may do wrong.
    lines = "  %19 = mul %8, %4 : i32\n" + LOAD.replace("%9", "%20").replace("%7", "%19") + STORE
    _, problems = body(lines, x)
    assert ProblemKind.SUBGROUP_DIVERGENCE in kinds_of(problems)


def test_cells_never_written_are_reported() -> None:
    x = np.zeros((2, 16, 16), np.float32)
    lines = '  %20 = fragment_load %2, %7, %4 {{layout="row"}} : ' + ACC + "\n" + STORE
    _, problems = body(lines, x)
    assert kinds_of(problems) == {ProblemKind.UNWRITTEN_READ}


def test_a_fragment_off_the_turn_of_swizzled_rows_is_reported() -> None:
    x = np.zeros((2, 16, 16), np.float32)
    load = '  %20 = fragment_load %0, %3, %18, %19 {{layout="row"}} : ' + ACC + "\n"
    numbers = "  %18 = const 32 : i32\n  %19 = const {0} : i32\n"
    assert body(numbers.replace("{0}", "0") + load + STORE, x)[1] == ()
    for lines in (
        numbers.replace("{0}", "8") + load,
        numbers.replace("{0}", "0").replace("const 32", "const 16") + load,
        numbers.replace("{0}", "0") + load.replace("%3", "%18"),
    ):
        _, problems = body(lines + STORE, x)
        assert ProblemKind.MISALIGNED in kinds_of(problems)
        assert "swizzled" in str(problems)
