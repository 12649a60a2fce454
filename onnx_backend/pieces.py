"""What many ops are made of: conversion, elementwise ops with broadcasting, choice, reductions.

A type that a kernel does not come in is computed in a wider one where that gives the same result:
f16, bf16 and 8-bit floats in f32, rounded once, as the kernels themselves do; integers of 8 and 16
bits in i32, of which the low bits are kept. Nothing is computed in a narrower one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .layout import expanded, full, moved, permuted, place
from .machine import Machine
from .refusal import InvalidNode, Missing
from .tensor import ARRAYS, FLOATS, Tensor

# Each value of the first is one of the second, too.
WIDER = {
    "f16": "f32",
    "bf16": "f32",
    "f8e4m3": "f16",
    "f8e5m2": "f32",
    "i8": "i32",
    "u8": "i32",
    "i16": "i32",
    "u16": "i32",
}
# Of the same width, with the low bits of the other.
_SIGNED = {"u8": "i8", "u16": "i16", "u32": "i32", "u64": "i64"}


def cast(m: Machine, x: Tensor, to: str) -> Tensor:
    """x as another type: floats round once to nearest even, floats to integers truncate and
    saturate, integers keep their low bits, and bools are 0 and 1."""
    if x.dtype == to:
        return x
    if m.has("cast", f"{x.dtype}_{to}"):
        y = m.empty(x.shape, to)
        m.launch("cast", f"{x.dtype}_{to}", x, y)
        return y
    if to == "bool":
        return inverted(m, compared(m, "eq", x, m.constant(0, x.dtype)))
    if x.dtype == "bool":
        return cast(m, x.seen_as("u8"), to)
    if x.dtype in WIDER and to != WIDER[x.dtype]:
        return cast(m, cast(m, x, WIDER[x.dtype]), to)
    if x.dtype in ("i32", "u32") and to in ("u8", "u16"):
        return cast(m, x, _SIGNED[to]).seen_as(to)
    if x.dtype == "u32" and to in ("i8", "i16"):
        return cast(m, x.seen_as("i32"), to)
    if {x.dtype, to} == {"i32", "u32"} or {x.dtype, to} == {"i64", "u64"}:
        return x.seen_as(to)
    if x.dtype in ("i64", "u64") and to in ("i32", "u32", "i16", "u16", "i8", "u8"):
        return cast(m, low_words(m, x), to)
    if x.dtype == "f32" and to in ("u8", "i8", "i16", "u16") and m.has("cast", "f32_i32"):
        return cast(m, limited(m, cast(m, x, "i32"), *RANGES[to]), to)
    raise Missing(f"kernel cast {x.dtype}_{to}")


RANGES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535)}


def limited(m: Machine, x: Tensor, low: float, high: float) -> Tensor:
    """min(max(x, low), high) of i32."""
    return binary(m, "min", binary(m, "max", x, m.constant(low, "i32")), m.constant(high, "i32"))


def low_words(m: Machine, x: Tensor) -> Tensor:
    """64-bit integers as i32 by their low words; what the host knows is checked to lie in i32."""
    if x.value is not None and x.size and not -(2**31) <= x.value.min() <= x.value.max() < 2**31:
        raise Missing("a 64-bit index type (a value outside 32 bits)")
    halves = x.seen_as("i32")
    return moved(m, halves, lambda v: v[..., 0])


def wide(m: Machine, x: Tensor) -> Tensor:
    """i32 that is not negative, as i64."""
    pairs = full(m, (*x.shape, 2), 0, "i32")
    if x.size == 0:
        return m.empty(x.shape, "i64")
    place(m, x, pairs, lambda v: v[..., 0])
    return Tensor(pairs.buffer.view(0, x.size, "i64"), x.shape, "i64")


def unary(m: Machine, op: str, x: Tensor) -> Tensor:
    """op of every element."""
    if m.has("unary", f"{op}_{x.dtype}"):
        y = m.empty(x.shape, x.dtype)
        m.launch("unary", f"{op}_{x.dtype}", x, y)
        return y
    if x.dtype in WIDER:
        return cast(m, unary(m, op, cast(m, x, WIDER[x.dtype])), x.dtype)
    raise Missing(f"kernel unary {op}_{x.dtype}")


def broadcast(m: Machine, *tensors: Tensor) -> tuple[Tensor, ...]:
    """All in their common shape. InvalidNode: they have none."""
    try:
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise InvalidNode("shapes do not broadcast", expected="one shape", got=shapes) from None
    return tuple(expanded(m, t, shape) for t in tensors)


# Ops of which the low bits follow from the low bits.
_BITS = ("add", "sub", "mul", "and", "or", "xor", "shl")


def binary(m: Machine, op: str, a: Tensor, b: Tensor) -> Tensor:
    """op of every pair, of two tensors of one type that broadcast."""
    a, b = broadcast(m, a, b)
    t = a.dtype
    if m.has("binary", f"{op}_{t}"):
        y = m.empty(a.shape, t)
        m.launch("binary", f"{op}_{t}", a, b, y)
        return y
    if t in WIDER:
        return cast(m, binary(m, op, cast(m, a, WIDER[t]), cast(m, b, WIDER[t])), t)
    if t == "u32" and op in _BITS:
        return binary(m, op, a.seen_as("i32"), b.seen_as("i32")).seen_as("u32")
    raise Missing(f"kernel binary {op}_{t}")


def compared(m: Machine, op: str, a: Tensor, b: Tensor) -> Tensor:
    """op ("lt", "le", "eq") of every pair, as bools."""
    a, b = broadcast(m, a, b)
    t = a.dtype
    if m.has("compare", f"{op}_{t}"):
        y = m.empty(a.shape, "bool")
        m.launch("compare", f"{op}_{t}", a, b, y)
        return y
    if t == "bool":
        return compared(m, op, a.seen_as("u8"), b.seen_as("u8"))
    if t in WIDER:
        return compared(m, op, cast(m, a, WIDER[t]), cast(m, b, WIDER[t]))
    if t == "u32" and op == "eq":
        return compared(m, op, a.seen_as("i32"), b.seen_as("i32"))
    raise Missing(f"kernel compare {op}_{t}")


def chosen(m: Machine, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a where the condition holds, else b."""
    condition, a, b = broadcast(m, condition, a, b)
    if a.itemsize == 8:
        pairs = expanded(m, condition.reshaped(*condition.shape, 1), (*condition.shape, 2))
        y = chosen(m, pairs, a.seen_as("u32"), b.seen_as("u32"))
        return Tensor(y.buffer.view(0, a.size, a.dtype), a.shape, a.dtype)
    y = m.empty(a.shape, a.dtype)
    words = {1: "u8", 2: "u16", 4: "u32"}[a.itemsize]
    bits = 8 * a.itemsize
    m.launch("where", f"b{bits}", condition, a.seen_as(words), b.seen_as(words), y.seen_as(words))
    return y


def inverted(m: Machine, x: Tensor) -> Tensor:
    """Not, of bools."""
    return chosen(m, x, m.constant(False, "bool"), m.constant(True, "bool"))


def scaled(m: Machine, x: Tensor, factor: float) -> Tensor:
    """x times a number, which is rounded to x's type."""
    return x if factor == 1 else binary(m, "mul", x, m.constant(factor, x.dtype))


def reduced(m: Machine, op: str, x: Tensor, axes: Sequence[int], keep: bool) -> Tensor:
    """op over some axes, of which axes of one element stay where `keep` says so."""
    kept = [n for n in range(x.rank) if n not in axes]
    rows = permuted(m, x, [*kept, *sorted(axes)])
    cols = int(np.prod([x.shape[n] for n in axes], dtype=np.int64))
    sizes = [1 if n in axes else x.shape[n] for n in range(x.rank)]
    flat = reduced_rows(m, op, rows, cols)
    return flat.reshaped(*(sizes if keep else [x.shape[n] for n in kept]))


def _of_nothing(op: str, dtype: str) -> float:
    """What changes nothing; of integers no mean is there."""
    if op in ("max", "min") and dtype not in FLOATS:
        limits = np.iinfo(ARRAYS[dtype])
        return limits.min if op == "max" else limits.max
    return {"prod": 1.0, "max": -np.inf, "min": np.inf, "mean": np.nan}.get(op, 0.0)


def reduced_rows(m: Machine, op: str, x: Tensor, cols: int) -> Tensor:
    """op of each run of `cols` elements, as one axis; of runs of none, what changes nothing."""
    count = x.size // cols if cols else int(np.prod(x.shape[:-1], dtype=np.int64))
    name = f"{op}_{x.dtype}"
    if not m.has("reduce_rows", name) and x.dtype in WIDER:
        return cast(m, reduced_rows(m, op, cast(m, x, WIDER[x.dtype]), cols), x.dtype)
    if not m.has("reduce_rows", name):
        raise Missing(f"kernel reduce_rows {name}")
    if cols == 0:
        return full(m, (count,), _of_nothing(op, x.dtype), x.dtype)
    out = "f32" if x.dtype == "f16" else x.dtype
    y = m.empty((count,), out)
    m.launch("reduce_rows", name, x, y, cols)
    return cast(m, y, x.dtype)
