"""What LLVM is asked to do for a kernel, and the addresses of kernels that it does not optimise."""

from __future__ import annotations

import pytest

from gristmill.backends.ptx.effort import thorough
from kernel_text import kernel
from ptx_tools import ptx

PARAMS = "x: i32 buffer read, y: i32 buffer readwrite, n: i32 scalar"
LOOP = """
    %3 = local_id {{dim=0}} : i32
    for %3, %2 body(%4: i32) {{
      {inside}
      continue
    }}
    return"""
READS = "%5 = load %0, %4 : i32\n store %1, %4, %5"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOOP.format(inside=READS), False),
        (LOOP.format(inside=""), True),
        ("%3 = local_id {dim=0} : i32\n %4 = mod %3, %2 : i32\n return", True),
        ('%3 = alloc {name="own"} : private<i32,4>\n return', True),
        ('%3 = alloc {name="few"} : workgroup<i32,128>\n return', False),
        ('%3 = alloc {name="many"} : workgroup<i32,129>\n return', True),
    ],
)
def test_llvm_optimises_where_that_pays(body: str, expected: bool) -> None:
    assert thorough(kernel(PARAMS, body)) is expected


def test_neighbours_share_an_address() -> None:
    """Whichever comes first, and however the sum is written; a region sees what is around it."""
    text = ptx(
        kernel(
            PARAMS,
            """
    %3 = local_id {dim=0} : i32
    %4 = const 5 : i32
    %5 = add %2, %4 : i32
    %6 = add %3, %5 : i32
    %7 = load %0, %6 : i32
    %8 = add %3, %2 : i32
    %9 = load %0, %8 : i32
    %10 = lt %7, %9 : bool
    if %10 {
      %11 = const 2 : i32
      %12 = add %8, %11 : i32
      %13 = load %0, %12 : i32
      store %1, %3, %13
      yield
    } else {
      yield
    }
    return""",
        )
    )
    assert text.count("mul.wide.s32") == 2  # of x and of y
    assert "-20];" in text
    assert "-12];" in text


def test_unsigned_sums_may_wrap_to_an_index() -> None:
    text = ptx(
        kernel(
            "x: i32 buffer read, y: i32 buffer readwrite, n: u32 scalar",
            """
    %3 = load %0, %2 : i32
    %4 = const 1 : u32
    %5 = add %2, %4 : u32
    %6 = load %0, %5 : i32
    %7 = add %3, %6 : i32
    store %1, %2, %7
    return""",
        )
    )
    assert text.count("mul.wide.u32") == 3


TURNS = """
    {alloc}
    %4 = local_id {{dim=0}} : i32
    %5 = const 0 : i32
    %6 = const 4 : i32
    for %5, %6 body(%7: i32) {{
      %8 = load %0, %7 : i32
      store {target}, {at}, %8
      continue
    }}
    {after}
    return"""


def test_the_assembler_gets_loops_whole_unless_neighbours_become_vectors() -> None:
    whole = TURNS.replace("load %0, %7", "load %0, %9").replace(
        "%8 =", "%9 = mul %7, %2 : i32\n %8 ="
    )
    text = ptx(kernel(PARAMS, whole.format(alloc="", target="%1", at="%9", after="")))
    assert text.count("ld.global.nc.b32") == 1
    text = ptx(kernel(PARAMS, TURNS.format(alloc="", target="%1", at="%7", after="")))
    assert text.count("ld.global.nc.v4.b32") == 1


def test_private_arrays_become_registers() -> None:
    """Where the turns of a loop are written out, each index of the array is a constant."""
    alloc = '%3 = alloc {name="own"} : private<i32,4>'
    after = "%9 = const 3 : i32\n    %10 = load %3, %9 : i32\n    store %1, %4, %10"
    turns = TURNS.replace("load %0, %7", "load %0, %4")
    text = ptx(kernel(PARAMS, turns.format(alloc=alloc, target="%3", at="%7", after=after)))
    assert ".local" not in text
