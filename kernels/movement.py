"""Moving elements: a copy between two arrays with any strides, and padding.

Elements move as bits, so one specialization serves all types of a width: `b32` is for i32, u32 and
f32, as buffers seen as u32. Elements of 64 bits are pairs of 32 along a last axis of two.

`copy_strided` is slice (also with steps, and reversed), concatenation (a copy for each part),
permutation, expansion (strides of 0), repetition and tiling: what numpy says by two views of one
shape. `strided` turns such views into its arguments.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Read,
    ReadWrite,
    Write,
    ceil_div,
    device,
    global_id,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    static_range,
    store_vector,
    u32,
    vec,
)
from .family import Args, Constexprs, Expected, Family, dtype, empty, normal

RANK = 6


@device
def divided(rest, n):
    """(rest // n, rest % n); an axis of one element, the same for all, costs nothing."""
    quotient = rest
    remainder = rest * 0
    if n > 1:
        quotient = rest // n
        remainder = rest - quotient * n
    return quotient, remainder


@device
def places(i, shape, xs, ys, x_start, y_start):
    """Where element i of the copy lies in x and in y; the last axis of the tuples comes first."""
    rest = u32(i)
    source = x_start
    target = y_start
    for axis in static_range(6):
        rest, at = divided(rest, u32(shape[axis]))
        source += i32(at) * xs[axis]
        target += i32(at) * ys[axis]
    return source, target


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(n0 * n1 * n2 * n3 * n4 * n5, BLOCK * VEC), 1, 1),
)
def copy_strided(
    x: Read[T],
    y: ReadWrite[T],
    n0: i32,
    n1: i32,
    n2: i32,
    n3: i32,
    n4: i32,
    n5: i32,
    x0: i32,
    x1: i32,
    x2: i32,
    x3: i32,
    x4: i32,
    x5: i32,
    y0: i32,
    y1: i32,
    y2: i32,
    y3: i32,
    y4: i32,
    y5: i32,
    x_start: i32,
    y_start: i32,
    *,
    T: DType = u32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y[y_start + sum(i_k * y_k)] = x[x_start + sum(i_k * x_k)] for all i_k < n_k.

    The rest of y stays. Strides and starts are in elements; every place lies inside x and y, and no
    two in the same element of y (`strided` checks it). A negative n_k is a fault, and nothing is
    copied. VEC neighbours move at a time where the last stride is 1 in both and all else is a
    multiple of VEC.
    """
    sized = (n0 | n1 | n2 | n3 | n4 | n5) >= 0
    assert sized, "copy_strided: a negative number of elements"
    count = n0 * n1 * n2 * n3 * n4 * n5 if sized else i32(0)
    others = x0 | x1 | x2 | x3 | x4 | y0 | y1 | y2 | y3 | y4 | x_start | y_start | n5
    if VEC > 1 and x5 == 1 and y5 == 1 and (others & (VEC - 1)) == 0:
        i = global_id(0) * VEC
        if i < count:
            shape = (n5, n4, n3, n2, n1, n0)
            xs = (x5, x4, x3, x2, x1, x0)
            ys = (y5, y4, y3, y2, y1, y0)
            source, target = places(i, shape, xs, ys, x_start, y_start)
            store_vector(y, target // VEC, load_vector(x, source // VEC, VEC))
    else:
        # Neighbours in the workgroup stay neighbours in y.
        for k in range(VEC):
            i = (group_id(0) * VEC + k) * BLOCK + local_id(0)
            if i < count:
                shape = (n5, n4, n3, n2, n1, n0)
                xs = (x5, x4, x3, x2, x1, x0)
                ys = (y5, y4, y3, y2, y1, y0)
                source, target = places(i, shape, xs, ys, x_start, y_start)
                y[target] = x[source]


@device
def inner_place(i, shape, inside, low):
    """Of element i of the padded array: whether it lies in the inner one, and where there."""
    rest = u32(i)
    place = i32(0)
    stride = i32(1)
    within = i >= 0
    for axis in static_range(4):
        rest, found = divided(rest, u32(shape[axis]))
        at = i32(found) - low[axis]
        within = within and at >= 0 and at < inside[axis]
        place += at * stride
        stride = stride * inside[axis]
    return within, place


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def pad(
    x: Read[T],
    y: Write[T],
    n0: i32,
    n1: i32,
    n2: i32,
    n3: i32,
    m0: i32,
    m1: i32,
    m2: i32,
    m3: i32,
    low0: i32,
    low1: i32,
    low2: i32,
    low3: i32,
    value: T,
    *,
    T: DType = u32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y[i] = x[i - low] where that is inside x, else value; y is n0..n3, x m0..m3, row-major.

    A negative low leaves out the first elements. `value` is given as bits.
    """
    shape = (n3, n2, n1, n0)
    inside = (m3, m2, m1, m0)
    low = (low3, low2, low1, low0)
    if VEC > 1 and ((n3 | m3 | low3) & (VEC - 1)) == 0:
        i = global_id(0) * VEC
        if i < len(y):
            within, place = inner_place(i32(i), shape, inside, low)
            found = vec(T, VEC)(value)
            if within:
                found = load_vector(x, place // VEC, VEC)
            store_vector(y, i // VEC, found)
    else:
        for k in range(VEC):
            i = (group_id(0) * VEC + k) * BLOCK + local_id(0)
            if i < len(y):
                within, place = inner_place(i32(i), shape, inside, low)
                found = value
                if within:
                    found = x[place]
                y[i] = found


def strided(source: np.ndarray, target: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, int]:
    """The scalars of `copy_strided` for target[...] = source: views of x and of y, of one shape.

    Axes that lie on one another become one. ValueError: shapes differ, a view is not one of its
    array, the target has an element twice, or more than 6 axes are left.
    """
    if source.shape != target.shape:
        raise ValueError(f"a copy of {source.shape} to {target.shape}: the shapes differ")
    names = [f"{kind}{axis}" for kind in "nxy" for axis in range(RANK)]
    if source.size == 0:
        return dict.fromkeys((*names, "x_start", "y_start"), 0)
    starts = {"x_start": _start(source, x, "x"), "y_start": _start(target, y, "y")}
    steps = [[s // view.itemsize for s in view.strides] for view in (source, target)]
    axes: list[tuple[int, int, int]] = []
    for n, s, t in zip(source.shape, *steps, strict=True):
        if n == 1:
            continue
        if axes and axes[-1][1:] == (n * s, n * t):
            axes[-1] = (axes[-1][0] * n, s, t)
        else:
            axes.append((n, s, t))
    if len(axes) > RANK:
        raise ValueError(f"a copy over {len(axes)} axes that cannot be joined, at most {RANK}")
    reach = 0
    for n, _, t in sorted(axes, key=lambda axis: abs(axis[2])):
        if abs(t) <= reach:
            raise ValueError("a copy to a view that has an element twice: its result is open")
        reach += (n - 1) * abs(t)
    rows = [(1, 0, 0)] * (RANK - len(axes)) + axes
    values = itertools.chain(*zip(*rows, strict=True))
    return dict(zip(names, values, strict=True)) | starts


def halves(view: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A view of 64-bit elements, and the array that it is one of, as pairs of 32-bit words along a
    last axis of two: the widest that `copy_strided` moves."""
    flat = base.reshape(-1).view(np.uint32)
    start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.lib.stride_tricks.as_strided(
        flat[start // 4 :], (*view.shape, 2), (*view.strides, 4)
    ), flat


def _byte_bounds(array: np.ndarray) -> tuple[int, int]:
    """The first byte of an array's elements and the one behind the last; numpy 1 and 2 have a
    function for it under different names."""
    low = high = array.__array_interface__["data"][0]
    for n, stride in zip(array.shape, array.strides, strict=True):
        low, high = low + min(stride * (n - 1), 0), high + max(stride * (n - 1), 0)
    return low, high + array.itemsize


def _start(view: np.ndarray, base: np.ndarray, name: str) -> int:
    """Elements from the begin of a C-contiguous array to the first one of a view of it."""
    first = view.__array_interface__["data"][0]
    low, high = _byte_bounds(view)
    begin, end = _byte_bounds(base)
    if not base.flags.c_contiguous or low < begin or high > end or view.dtype != base.dtype:
        raise ValueError(f"the view of {name} is not one of the elements of a contiguous array")
    return (first - begin) // view.itemsize


def _views(x: np.ndarray, t: DType) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(view of x, y, view of y) for each thing that one copies for; x is 6 x 8 x 16."""
    sliced = x[4:0:-2, 1:7:3, 3:14:5]
    yield sliced, (y := empty(sliced.shape, t)), y
    y = empty((6, 24, 16), t)
    yield x, y, y[:, 8:16]  # a part of a concatenation, in whole vectors
    yield x.transpose(2, 0, 1), (y := empty((16, 6, 8), t)), y
    yield x.transpose(1, 0, 2), (y := empty((8, 6, 16), t)), y
    column = np.broadcast_to(x[:, 2:3, 5], (6, 7))
    yield column, (y := empty((6, 7), t)), y
    tiled = np.broadcast_to(x[:, None, :, None, :, None], (6, 2, 8, 3, 16, 2))
    yield tiled, (y := empty(tiled.shape, t)), y
    yield x[:0], empty(0, t), empty((0, 8, 16), t)


def _copy_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    x = normal(rng, (6, 8, 16), t)
    for source, y, target in _views(x, t):
        yield {"x": x.copy(), "y": y, **strided(source, target, x, y)}


def _copy_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    y = args["y"].copy().reshape(-1)
    shape = [args[f"n{axis}"] for axis in range(RANK)]

    def elements(kind: str) -> np.ndarray:
        steps = np.array([args[f"{kind}{axis}"] for axis in range(RANK)])
        return args[f"{kind}_start"] + np.tensordot(steps, np.indices(shape), 1)

    if 0 not in shape:
        y[elements("y")] = args["x"].reshape(-1)[elements("x")]
    return {"y": Expected(y)}


def _pad_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for outer, inner, low in (
        ((1, 1, 1, 3), (1, 1, 1, 1), (0, 0, 0, 1)),
        ((2, 3, 9, 35), (2, 3, 7, 30), (0, 0, 1, 5)),
        ((1, 5, 6, 48), (1, 3, 9, 24), (0, 1, -2, 16)),
        ((1, 1, 2, 70), (1, 0, 2, 8), (0, 0, 0, 0)),
    ):
        sizes = {f"{k}{a}": v[a] for k, v in (("n", outer), ("m", inner)) for a in range(4)}
        sizes |= {f"low{a}": low[a] for a in range(4)}
        value = int(normal(rng, 1, t)[0])
        yield {"x": normal(rng, inner, t), "y": empty(outer, t), **sizes, "value": value}


def _pad_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x = args["x"]
    y = np.full_like(args["y"], args["value"])
    lows = [args[f"low{a}"] for a in range(4)]
    kept = [slice(max(low, 0), max(low + m, 0)) for low, m in zip(lows, x.shape, strict=True)]
    taken = [
        slice(max(-low, 0), max(min(m, n - low), 0))
        for low, m, n in zip(lows, x.shape, y.shape, strict=True)
    ]
    y[tuple(kept)] = x[tuple(taken)]
    return {"y": Expected(y)}


FAMILIES = (
    Family(copy_strided, _copy_inputs, _copy_reference, "exact: moves bits"),
    Family(pad, _pad_inputs, _pad_reference, "exact: moves bits"),
)
