"""Subgroup ops made of `subgroup_shuffle`. Kernels that need this state their subgroup size."""

from __future__ import annotations

import math

from ..core import Value
from ..dtypes import element_of
from .context import Context


def _size(c: Context) -> int:
    if c.subgroup is None:
        raise ValueError(
            "subgroup ops of this target are made of shuffles, which needs the subgroup size: "
            "give the kernel a SUBGROUP constexpr"
        )
    return c.subgroup


def _lane(c: Context) -> Value:
    return c.e("subgroup_lane", type=c.index)


def shuffle_xor(c: Context, x: Value, n: Value) -> Value:
    return c.e("subgroup_shuffle", x, c.e("xor", _lane(c), c.cast(n, c.index)))


def shuffle_up(c: Context, x: Value, n: Value) -> Value:
    return _relative(c, x, "sub", c.cast(n, c.index))


def shuffle_down(c: Context, x: Value, n: Value) -> Value:
    return _relative(c, x, "add", c.cast(n, c.index))


def _relative(c: Context, x: Value, move: str, n: Value) -> Value:
    lane = _lane(c)
    source = c.e(move, lane, n)
    low, high = c.k(0, source), c.k(_size(c), source)
    inside = c.e("and", c.e("ge", source, low), c.e("lt", source, high))
    return c.e("subgroup_shuffle", x, c.e("select", inside, source, lane))


def broadcast(c: Context, x: Value, lane: Value) -> Value:
    return c.e("subgroup_shuffle", x, lane)


def reduce(c: Context, x: Value) -> Value:
    """A butterfly: after the step over n lanes, every lane holds the total of 2n."""
    lane, n = _lane(c), 1
    while n < _size(c):
        other = c.e("subgroup_shuffle", x, c.e("xor", lane, c.k(n, lane)))
        x = c.e(str(c.attrs["kind"]), x, other)
        n *= 2
    return x


def scan(c: Context, x: Value) -> Value:
    """Hillis and Steele: lane i adds what lane i - n has gathered, for n = 1, 2, 4, ..."""
    kind = str(c.attrs["kind"])
    lane, n = _lane(c), 1
    zero = c.k(0, lane)
    while n < _size(c):
        source = c.e("sub", lane, c.k(n, lane))
        inside = c.e("ge", source, zero)
        other = c.e("subgroup_shuffle", x, c.e("max", source, zero))
        x = c.e("select", inside, c.e(kind, other, x), x)
        n *= 2
    if c.attrs["inclusive"]:
        return x
    before = c.e("max", c.e("sub", lane, c.k(1, lane)), zero)
    shifted = c.e("subgroup_shuffle", x, before)
    return c.e("select", c.e("eq", lane, zero), _identity(c, kind, x), shifted)


def _identity(c: Context, kind: str, x: Value) -> Value:
    t = element_of(x.type)
    if kind == "min":
        return c.k(math.inf if t.is_float else t.max, x)
    if kind == "max":
        return c.k(-math.inf if t.is_float else t.min, x)
    return c.k({"mul": 1, "and": -1}.get(kind, 0), x)
