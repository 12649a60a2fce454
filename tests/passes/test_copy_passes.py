"""Asynchronous copies made plain."""

from __future__ import annotations

import numpy as np
import pytest

from copy_kernels import COPIES, case
from gristmill.backends.cpu.emit import support
from gristmill.ir.core import walk
from gristmill.ir.interp import run
from gristmill.ir.passes import as_held, standard
from gristmill.ir.passes import run as apply
from gristmill.ir.passes.copies import COPIES as OPS
from gristmill.ir.passes.copies import PlainCopies
from gristmill.ir.passes.effects import op_names
from gristmill.ir.text import parse_kernel
from gristmill.ir.verify import verify
from pass_check import check_valid


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("fill", [True, False])
@pytest.mark.parametrize(("t", "count"), COPIES)
def test_the_same_results(
    t: str, count: int, fill: bool, joined: bool, rng: np.random.Generator
) -> None:
    kernel, args, expected = case(rng, t, count, fill)
    plain = PlainCopies(joined)(kernel)
    verify(plain)
    for lowered in (plain, as_held(apply(kernel, standard(support())))):
        check_valid(lowered)
        assert not OPS & op_names(lowered)
        args[1][:] = 1
        assert run(lowered, args, (1, 1, 1)).problems == ()
        assert (args[1] == expected).all()


@pytest.mark.parametrize("fill", [True, False])
def test_passes_keep_copies_in_their_place(fill: bool, rng: np.random.Generator) -> None:
    kernel, args, expected = case(rng, "f32", 4, fill)
    kept = as_held(apply(kernel, standard(support(), copies=None)))
    assert op_names(kept) >= OPS
    assert run(kept, args, (1, 1, 1)).problems == ()
    assert (args[1] == expected).all()


def test_a_kernel_without_copies_is_left_alone(rng: np.random.Generator) -> None:
    kernel = PlainCopies()(case(rng, "f32", 4, True)[0])
    assert PlainCopies()(kernel) is kernel


def test_a_copy_that_nothing_reads_goes() -> None:
    text = (
        "kernel k t\nparam x: f32 buffer read\nworkgroup 32 1 1\nindex i32\n"
        'body(%0: buffer<f32,read>) {\n  %1 = alloc {name="a"} : workgroup<f32,32>\n'
        "  %2 = const 0 : i32\n  copy_async %1, %2, %0, %2 {count=4}\n  copy_commit\n"
        "  copy_wait {pending=0}\n  return\n}\n"
    )
    kept = apply(parse_kernel(text), standard(support(), copies=None))
    assert "copy_async" not in op_names(kept)


ROWS = """kernel k t
param x: f32 buffer read
param y: f32 buffer write
param rows: i32 scalar
workgroup 32 1 1
index i32
body(%0: buffer<f32,read>, %1: buffer<f32,write>, %2: i32) {{
  %3 = alloc {{name="a"}} : workgroup<f32,128>
  %4 = local_id {{dim=0}} : i32
  %5 = const 4 : i32
  %6 = mul %4, %5 : i32
  %7 = lt %4, %2 : bool
  %8 = const {given} : i32
  %9 = const 0 : i32
  %10 = select %7, %8, %9 : i32
  copy_async %3, %6, %0, %6, %10 {{count=4}}
  barrier
  %11 = load %3, %4 : f32
  store %1, %4, %11
  return
}}
"""


@pytest.mark.parametrize(("given", "loops"), [(4, 0), (3, 1)])
def test_what_is_given_wholly_or_not_at_all_needs_no_loop(given: int, loops: int) -> None:
    """Any other copy has one, not as many branches as it has elements."""
    plain = PlainCopies()(parse_kernel(ROWS.format(given=given)))
    verify(plain)
    names = [op.name for op in walk(plain.body)]
    assert (names.count("for"), names.count("if")) == (loops, 1)
    x, y = np.arange(1, 129, dtype=np.float32), np.zeros(32, np.float32)
    assert run(plain, [x, y, 5], (1, 1, 1)).problems == ()
    wanted = np.where((np.arange(32) < 20) & (np.arange(32) % 4 < given), x[:32], 0)
    assert (y == wanted).all()


GIVEN = """kernel k t
param x: f16 buffer read
param y: f16 buffer write
workgroup 32 1 1
index i32
body(%0: buffer<f16,read>, %1: buffer<f16,write>) {
  %2 = alloc {name="a"} : workgroup<f16,256>
  %3 = local_linear_id : i32
  %4 = const 8 : i32
  %5 = const 0 : i32
  %6 = const 20 : i32
  %7 = mul %3, %4 : i32
  %8 = lt %3, %6 : bool
  %9 = select %8, %4, %5 : i32
  copy_async %2, %7, %0, %7, %9 {count=8}
  copy_commit
  copy_wait {pending=0}
  %10 = load %2, %3 {lanes=8} : f16x8
  store %1, %3, %10
  return
}
"""


@pytest.mark.parametrize(("joined", "stores"), [(True, 1), (False, 2)])
def test_a_copy_of_all_or_nothing(joined: bool, stores: int) -> None:
    plain = PlainCopies(joined)(parse_kernel(GIVEN))
    verify(plain)
    check_valid(plain)
    tile = plain.body.ops[0].result
    found = [op for op in walk(plain.body) if op.name == "store" and op.operands[0] == tile]
    assert len(found) == stores
    x = np.arange(256).astype(np.float16)
    y = np.ones(256, np.float16)
    assert run(plain, [x, y], (1, 1, 1)).problems == ()
    x[160:] = 0
    assert (y == x).all()
