"""Graph ops that move elements and compute nothing, and those that make a tensor of nothing."""

from __future__ import annotations

import math

from ..dtypes import DType, f32, u32
from .table import AttrRow, Attrs, Types, primitive, require, require_axis
from .types import TensorType

TUPLE = AttrRow(tuple)


@primitive("broadcast", 1, shape=TUPLE)
def _broadcast(operands: Types, attrs: Attrs) -> Types:
    """A larger shape: dimensions are matched from the last one on, those of size 1 and missing ones
    repeat."""
    (x,) = operands
    shape: tuple[int, ...] = attrs["shape"]
    require(len(shape) >= x.rank, f"shape {list(shape)} has fewer dimensions than {x}")
    tail = shape[len(shape) - x.rank :]
    fits = all(have in (1, want) for have, want in zip(x.shape, tail, strict=True))
    require(fits, f"shape {list(shape)} is none that {x} repeats to")
    return (x.with_shape(shape),)


@primitive("reshape", 1, shape=TUPLE)
def _reshape(operands: Types, attrs: Attrs) -> Types:
    """The same elements in their order in another shape of as many."""
    (x,) = operands
    result = x.with_shape(attrs["shape"])
    require(result.size == x.size, f"{result} has {result.size} elements, not {x.size}")
    return (result,)


@primitive("transpose", 1, axes=TUPLE)
def _transpose(operands: Types, attrs: Attrs) -> Types:
    """Dimension n of the result is dimension axes[n] of the operand."""
    (x,) = operands
    axes: tuple[int, ...] = attrs["axes"]
    require(
        sorted(axes) == list(range(x.rank)),
        f"axes {list(axes)} name not each of the {x.rank} dimensions once",
    )
    return (x.with_shape(tuple(x.shape[axis] for axis in axes)),)


@primitive("slice", 1, start=TUPLE, stop=TUPLE, step=TUPLE)
def _slice(operands: Types, attrs: Attrs) -> Types:
    """Of each dimension the elements from `start` on to before `stop`, each `step`-th one."""
    (x,) = operands
    bounds = [attrs[key] for key in ("start", "stop", "step")]
    for key, bound in zip(("start", "stop", "step"), bounds, strict=True):
        require(len(bound) == x.rank, f"{key} has {len(bound)} numbers for {x.rank} dimensions")
    shape = []
    for axis, (start, stop, step) in enumerate(zip(*bounds, strict=True)):
        size = x.shape[axis]
        require(step >= 1, f"step {step} of dimension {axis} is not 1 or more")
        require(0 <= start <= stop <= size, f"{start}:{stop} of dimension {axis}, which has {size}")
        shape.append(-(-(stop - start) // step))
    return (x.with_shape(tuple(shape)),)


@primitive("concat", (1, None), axis=AttrRow(int))
def _concat(operands: Types, attrs: Attrs) -> Types:
    """The operands one behind the other along a dimension; their others are equal."""
    first, axis = operands[0], attrs["axis"]
    require_axis(axis, first.rank)
    for t in operands[1:]:
        same = t.dtype == first.dtype and t.rank == first.rank
        same = same and all(
            a == b for n, (a, b) in enumerate(zip(t.shape, first.shape, strict=True)) if n != axis
        )
        require(same, f"{t} does not go behind {first} along dimension {axis}")
    total = sum(t.shape[axis] for t in operands)
    return (first.with_shape((*first.shape[:axis], total, *first.shape[axis + 1 :])),)


@primitive("pad", 2, low=TUPLE, high=TUPLE)
def _pad(operands: Types, attrs: Attrs) -> Types:
    """More elements before and behind each dimension, all equal to the second operand, a scalar."""
    x, fill = operands
    require(fill == TensorType(x.dtype), f"it is filled with a scalar {x.dtype}[], not {fill}")
    low, high = attrs["low"], attrs["high"]
    for key, counts in (("low", low), ("high", high)):
        require(len(counts) == x.rank, f"{key} has {len(counts)} numbers for {x.rank} dimensions")
        require(min(counts, default=0) >= 0, f"{key} {list(counts)} has a number below 0")
    sizes = zip(low, x.shape, high, strict=True)
    return (x.with_shape(tuple(a + size + b for a, size, b in sizes)),)


@primitive("iota", 0, shape=TUPLE, axis=AttrRow(int), dtype=AttrRow(DType))
def _iota(operands: Types, attrs: Attrs) -> Types:
    """Each element is its place along a dimension."""
    require_axis(attrs["axis"], len(attrs["shape"]))
    dtype: DType = attrs["dtype"]
    require(dtype.is_int or dtype == f32, f"places are integers or f32, not {dtype}")
    size, most = attrs["shape"][attrs["axis"]], dtype.max + 1 if dtype.is_int else 1 << 24
    require(size <= most, f"{size} places: {dtype} counts to {most}")
    return (TensorType(dtype, attrs["shape"]),)


@primitive("random", 1, shape=TUPLE)
def _random(operands: Types, attrs: Attrs) -> Types:
    """Random u32, Philox 4x32-10 (Salmon et al., SC 2011): element c of row r, rows counted over
    all dimensions but the last, is word c % 4 of the counter (c // 4, r, state[2], state[3]) under
    the key (state[0], state[1]). The operand is the state, u32[4]."""
    require(operands[0] == TensorType(u32, (4,)), f"the state is u32[4], not {operands[0]}")
    result = TensorType(u32, attrs["shape"])
    require(result.rank >= 1, "numbers come in rows: a scalar has none")
    rows = math.prod(result.shape[:-1])
    counted = rows <= 1 << 32 and result.shape[-1] <= 1 << 34
    require(counted, f"{result} has more rows or columns than the counter counts")
    return (result,)
