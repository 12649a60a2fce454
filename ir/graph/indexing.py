"""Graph ops whose places are data: gather and scatter."""

from __future__ import annotations

from ..dtypes import i32, i64
from .table import AttrRow, Attrs, Types, primitive, require, require_axis, require_dtype


@primitive("gather", 2, axis=AttrRow(int))
def _gather(operands: Types, attrs: Attrs) -> Types:
    """The slices of the first operand along a dimension that the second one, i32 or i64, counts:
    its shape takes that dimension's place. A place outside is a fault."""
    x, places = operands
    axis = attrs["axis"]
    require_axis(axis, x.rank)
    require_dtype(places, "a place", i32, i64)
    return (x.with_shape(x.shape[:axis] + places.shape + x.shape[axis + 1 :]),)


@primitive("scatter", 3, updates=True, kind=AttrRow(str, "set", ("set", "add")), axis=AttrRow(int))
def _scatter(operands: Types, attrs: Attrs) -> Types:
    """The first operand, but for the slices along a dimension that the second one, i32 or i64 of
    rank 1, counts: the third operand's slices in their place, or added to them. A place outside is
    a fault, but -1 is no place: its slice is dropped. With "set", places differ."""
    x, places, updates = operands
    axis = attrs["axis"]
    require_axis(axis, x.rank)
    require_dtype(places, "a place", i32, i64)
    require(places.rank == 1, f"places have one dimension, not {places.rank}")
    wanted = x.with_shape((*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]))
    require(updates == wanted, f"the updates are {wanted}, not {updates}")
    adds = attrs["kind"] == "add"
    numbers = x.dtype.computes and not x.dtype.is_bool
    require(numbers or not adds, f"{x.dtype} is not added")
    return (x,)
