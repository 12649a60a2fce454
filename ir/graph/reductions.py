"""Graph ops along dimensions: reductions, running sums, the greatest elements."""

from __future__ import annotations

from ..dtypes import i32
from .table import AttrRow, Attrs, Types, primitive, require, require_axis
from .types import TensorType

KINDS = ("sum", "prod", "max", "min")


def _number(t: TensorType) -> None:
    require(not t.dtype.is_bool and t.dtype.computes, f"{t.dtype} is no number to compute with")


@primitive("reduce", 1, kind=AttrRow(str, words=KINDS), axes=AttrRow(tuple))
def _reduce(operands: Types, attrs: Attrs) -> Types:
    """All elements along the dimensions `axes`, in rising order, become one; the dimensions go.
    Sums of f16 and bf16 are made in f32 and rounded once. NaNs lose against numbers in max and min,
    as with the elementwise ops. Of nothing: 0, 1, and the least and the greatest value."""
    (x,) = operands
    _number(x)
    axes: tuple[int, ...] = attrs["axes"]
    for axis in axes:
        require_axis(axis, x.rank)
    require(list(axes) == sorted(set(axes)), f"axes {list(axes)} are not in rising order")
    require(bool(axes), "it names no dimension to reduce")
    return (x.with_shape(tuple(n for axis, n in enumerate(x.shape) if axis not in axes)),)


@primitive("arg_reduce", 1, kind=AttrRow(str, words=("max", "min")), axis=AttrRow(int))
def _arg_reduce(operands: Types, attrs: Attrs) -> Types:
    """The place, i32, of the greatest or least element along a dimension, the first of equal ones;
    NaNs do not count, and -1 where there is nothing else."""
    (x,) = operands
    _number(x)
    require_axis(attrs["axis"], x.rank)
    axis = attrs["axis"]
    return (TensorType(i32, x.shape[:axis] + x.shape[axis + 1 :]),)


@primitive(
    "cumulative",
    1,
    kind=AttrRow(str, words=("sum", "prod")),
    axis=AttrRow(int),
    exclusive=AttrRow(bool, False),
    reverse=AttrRow(bool, False),
)
def _cumulative(operands: Types, attrs: Attrs) -> Types:
    """The sum or product of all elements up to each place along a dimension, without that one where
    it is exclusive, from the end where it is reverse. Of f16 and bf16 in f32."""
    _number(operands[0])
    require_axis(attrs["axis"], operands[0].rank)
    return operands


@primitive("top_k", 1, k=AttrRow(int))
def _top_k(operands: Types, attrs: Attrs) -> Types:
    """The k greatest elements along the last dimension in falling order, and their places as i32;
    of equal ones the first comes first. NaNs count as less than everything."""
    (x,) = operands
    _number(x)
    require(x.rank >= 1, "a scalar has no last dimension")
    require(1 <= attrs["k"] <= x.shape[-1], f"k is 1 to {x.shape[-1]}, not {attrs['k']}")
    shape = (*x.shape[:-1], attrs["k"])
    return x.with_shape(shape), TensorType(i32, shape)
