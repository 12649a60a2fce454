"""Gated linear units (Shazeer, arXiv:2002.05202): an activation of one half times the other.

SwiGLU is OP = op_silu, GeGLU op_gelu or op_gelu_tanh (as models that say "gelu_pytorch_tanh" mean),
ReGLU op_relu.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Function,
    Read,
    Write,
    ceil_div,
    convert,
    device,
    exp,
    f32,
    global_id,
    i32,
    kernel,
    u32,
)
from .common import load, store
from .elementwise import UNARY, op_gelu, op_gelu_fast, op_name, op_relu, op_silu
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
    u,
)
from .movement import divided
from .op_bounds import extra, tolerance

__all__ = ["FAMILIES", "gated", "gated_packed", "op_gelu", "op_gelu_fast", "op_gelu_tanh"]
__all__ += ["op_relu", "op_silu"]


@device
def op_gelu_tanh(x):
    """GELU's form with tanh: x/2 (1 + tanh z), which is x / (1 + exp(-2 z))."""
    return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))


@device
def unit(gate, up, OP, T):
    """OP(gate) * up, in f32, rounded to T once."""
    return convert(OP(convert(gate, f32)) * convert(up, f32), T)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def gated(
    gate: Read[T],
    up: Read[T],
    y: Write[T],
    *,
    OP: Function = op_silu,
    T: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
    FAST: bool = False,
):
    """y = OP(gate) * up. FAST: by the target's approximate functions, for narrower T."""
    i = global_id(0)
    if VEC > 1 and i < len(y) // VEC:
        store(y, i, unit(load(gate, i, VEC), load(up, i, VEC), OP, T), VEC)
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            k = i * VEC + n
            y[k] = unit(gate[k], up[k], OP, T)


@device
def packed_unit(x, y, i, cols, OP, T, VEC):
    """Vector i of y; cols counts vectors."""
    row, column = divided(u32(i), u32(cols))
    at = 2 * cols * i32(row) + i32(column)
    store(y, i, unit(load(x, at, VEC), load(x, at + cols, VEC), OP, T), VEC)


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def gated_packed(
    x: Read[T],
    y: Write[T],
    cols: i32,
    *,
    OP: Function = op_silu,
    T: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
    FAST: bool = False,
):
    """y[r, c] = OP(x[r, c]) * x[r, cols + c]; a row of x is 2 * cols long, one of y cols."""
    i = i32(global_id(0))
    if VEC > 1 and cols % VEC == 0:
        if i < len(y) // VEC:
            packed_unit(x, y, i, cols // VEC, OP, T, VEC)
    else:
        for n in range(min(VEC, i32(len(y)) - i * VEC)):
            packed_unit(x, y, i * VEC + n, cols, OP, T, 1)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _activated(op: str, x: np.ndarray, fast: bool) -> tuple[np.ndarray, np.ndarray]:
    """OP(x) in float64, and how far the same computed in f32 may be from it."""
    if op != "op_gelu_tanh":
        fn, ops, roundings = UNARY[op]
    else:
        fn, ops, roundings = _gelu_tanh, ("exp", "div"), 1
    with np.errstate(all="ignore"):
        value = fn(x)
        error = tolerance(value, ops, roundings, {"T": "f32"}) + extra(op, x, value, fast)
        if op == "op_gelu_tanh":  # the argument of exp is rounded six times, then once more if fast
            argument = 1.6 * np.abs(x + 0.044715 * x**3)
            error = error + np.nan_to_num(np.abs(value) * argument) * (10 if fast else 6) * u(f32)
    return value, np.nan_to_num(error)


def _expected(gate: np.ndarray, up: np.ndarray, constexprs: Constexprs) -> Expected:
    t, op = dtype(constexprs), constexprs["OP"]
    act, error = _activated(op_name(op), gate, constexprs["FAST"])
    with np.errstate(all="ignore"):
        value = act * up
    return Expected(value, _BOUND(error=error, up=up, value=value, T=t))


_BOUND = bound(
    "error * abs(up) + abs(value) * (u(f32) + u(T)) + least(T) + 2**-126",
    error="of OP, as `unary` has it in f32; of op_gelu_tanh, also 9.6 * u(f32) (FAST: 16) times"
    " abs(OP(gate) * (gate + 0.044715 * gate**3))",
    up="the factor",
)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for n in (1, 4096, 2051):
        yield {"gate": normal(rng, n, t, 4.0), "up": normal(rng, n, t), "y": empty(n, t)}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    return {"y": _expected(decode(args["gate"], t), decode(args["up"], t), constexprs)}


def _packed_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for rows, cols in ((1, 1), (3, 512), (5, 77), (0, 8)):
        x = normal(rng, (rows, 2 * cols), t, 3.0)
        yield {"x": x, "y": empty((rows, cols), t), "cols": cols}


def _packed_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    x, cols = decode(args["x"], dtype(constexprs)), args["cols"]
    return {"y": _expected(x[:, :cols], x[:, cols:], constexprs)}


_WORDS = "the op table's bound of OP, a product, then one rounding"
FAMILIES = (
    Family(gated, _inputs, _reference, _WORDS, {"": _BOUND}),
    Family(gated_packed, _packed_inputs, _packed_reference, _WORDS, {"": _BOUND}),
)
