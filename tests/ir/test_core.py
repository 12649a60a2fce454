"""Questions that every step of a compile asks a kernel: its ops by name, types and replacements."""

from __future__ import annotations

import pytest

from gristmill.ir.core import Value, ops_by_name, ops_named, replaced, types_of, walk
from gristmill.ir.dtypes import bool_, f32, i32
from gristmill.ir.verify import verify
from gristmill.kernels.elementwise import binary, op_add
from gristmill.kernels.matmul import matmul
from gristmill.kernels.softmax import softmax
from gristmill.kernels.topk import topk

KERNELS = {
    "binary": binary.trace("s", OP=op_add, VEC=4),
    "matmul": matmul.trace("s", T="f16", OUT="f16"),
    "softmax": softmax.trace("s", SUBGROUP=32, VEC=4, KEEP=8, FAST=True),
    "topk": topk.trace("s"),
}
VALUES = Value(0, i32), Value(1, f32), Value(2, bool_)


@pytest.mark.parametrize("name", KERNELS)
def test_ops_by_name_are_those_of_a_walk(name: str) -> None:
    body = KERNELS[name].body
    ops = list(walk(body))
    found = ops_by_name(body)
    assert found.keys() == {op.name for op in ops}
    for wanted in (("load",), ("if", "for", "while"), ("const", "store", "nothing"), ()):
        assert ops_named(body, *wanted) == [op for op in ops if op.name in wanted]
    # Of a region within, and of the whole again.
    inner = ops_named(body, "if")[0].regions[0]
    assert ops_by_name(inner).keys() == {op.name for op in walk(inner)}
    assert ops_by_name(body) == found


@pytest.mark.parametrize("count", range(4))
def test_types_and_replacements_of_any_number_of_values(count: int) -> None:
    values, new = VALUES[:count], {1: Value(7, f32)}
    assert types_of(values) == tuple(v.type for v in values)
    assert [v.id for v in replaced(values, new)] == [0, 7, 2][:count]


@pytest.mark.parametrize("name", KERNELS)
def test_what_the_tracer_makes_is_right_to_the_last_type(name: str) -> None:
    """A trace leaves out what `inferred` leaves out."""
    verify(KERNELS[name])
