"""saxpy and the unary and binary elementwise families.

An invocation handles VEC neighbouring elements with one vector access; the last one handles what
is left over element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..ir.lang import (
    DType,
    Function,
    Read,
    ReadWrite,
    Write,
    ceil_div,
    convert,
    device,
    erf,
    exp,
    f32,
    global_id,
    kernel,
    load_vector,
    log,
    rsqrt,
    select,
    sin,
    sqrt,
    store_vector,
    tanh,
)
from . import elementary
from .elementary import *  # what a configuration may name as OP
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    encode,
    normal,
)
from .op_bounds import BOUNDS, OP_BOUND, extra, tolerance


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def saxpy(x: Read[T], y: ReadWrite[T], a: T, *, T: DType = f32, BLOCK: int = 256, VEC: int = 1):
    """y = a * x + y, two roundings."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = a * x[i] + y[i]
    elif i < len(y) // VEC:
        store_vector(y, i, a * load_vector(x, i, VEC) + load_vector(y, i, VEC))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            y[i * VEC + n] = a * x[i * VEC + n] + y[i * VEC + n]


@kernel(
    workgroup=lambda: (BLOCK, 1, 1),
    grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def unary(
    x: Read[T],
    y: Write[T],
    *,
    OP: Function,
    T: DType = f32,
    C: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
    FAST: bool = False,
):
    """y = OP(x), computed in C and rounded to T once.

    FAST: by the target's approximate functions, for a T of fewer bits than those are right to.
    """
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = convert(OP(convert(x[i], C)), T)
    elif i < len(y) // VEC:
        store_vector(y, i, convert(OP(convert(load_vector(x, i, VEC), C)), T))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            y[i * VEC + n] = convert(OP(convert(x[i * VEC + n], C)), T)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), BLOCK * VEC), 1, 1))
def binary(
    a: Read[T],
    b: Read[T],
    y: Write[T],
    *,
    OP: Function,
    T: DType = f32,
    C: DType = f32,
    BLOCK: int = 256,
    VEC: int = 1,
):
    """y = OP(a, b), computed in C and rounded to T once."""
    i = global_id(0)
    if VEC == 1:
        if i < len(y):
            y[i] = convert(OP(convert(a[i], C), convert(b[i], C)), T)
    elif i < len(y) // VEC:
        first = convert(load_vector(a, i, VEC), C)
        second = convert(load_vector(b, i, VEC), C)
        store_vector(y, i, convert(OP(first, second), T))
    else:
        for n in range(min(VEC, len(y) - i * VEC)):
            y[i * VEC + n] = convert(OP(convert(a[i * VEC + n], C), convert(b[i * VEC + n], C)), T)


@device
def op_abs(x):
    """|x|."""
    return abs(x)


@device
def op_neg(x):
    """-x."""
    return -x


@device
def op_relu(x):
    """x where it is positive, else 0."""
    return max(x, 0)


@device
def op_sqrt(x):
    """The square root."""
    return sqrt(x)


@device
def op_rsqrt(x):
    """1 / sqrt(x)."""
    return rsqrt(x)


@device
def op_exp(x):
    """e to the power x."""
    return exp(x)


@device
def op_log(x):
    """The natural logarithm."""
    return log(x)


@device
def op_sin(x):
    """The sine of x radians."""
    return sin(x)


@device
def op_tanh(x):
    """The hyperbolic tangent."""
    return tanh(x)


@device
def op_erf(x):
    """The error function."""
    return erf(x)


@device
def op_sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x))


@device
def op_silu(x):
    """x times its sigmoid."""
    return x / (1 + exp(-x))


@device
def op_gelu(x):
    """The exact form: x/2 (1 + erf(x / sqrt 2))."""
    return 0.5 * x * (1 + erf(x * 0.7071067811865476))


@device
def op_tanh_fast(x):
    """tanh by exp, and by its series where 1 - 2 / (e**2x + 1) would cancel; for FAST."""
    s = x * x
    small = x * (1 - s * (1 / 3 - s * (2 / 15)))
    return select(abs(x) < 0.125, small, 1 - 2 / (exp(2 * x) + 1))


@device
def op_gelu_fast(x):
    """x times the normal distribution by an erfc of 1.5e-7 (Abramowitz and Stegun, 7.1.26); for
    FAST."""
    t = 1 / (1 + 0.2316418882 * abs(x))  # 0.3275911 sqrt(1/2); the others are halved
    p = (0.5307027145 * t - 0.7265760135) * t + 0.7107068705
    tail = ((p * t - 0.142248368) * t + 0.127414796) * t * exp(x * x * -0.5)
    return x * select(x < 0, tail, 1 - tail)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


# name: (reference in float64, the ops that are not exact, roundings of f32 between them). The op
# table has the error of an op in ulp; errors add up, and a rounding is half an ulp. What the
# result loses when it is rounded to T comes on top.
UNARY: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "op_abs": (np.abs, (), 0),
    "op_neg": (np.negative, (), 0),
    "op_relu": (lambda x: np.fmax(x, 0), (), 0),
    "op_sqrt": (np.sqrt, ("sqrt",), 0),
    "op_rsqrt": (lambda x: 1 / np.sqrt(x), ("rsqrt",), 0),
    "op_exp": (np.exp, ("exp",), 0),
    "op_log": (np.log, ("log",), 0),
    "op_sin": (np.sin, ("sin",), 0),
    "op_tanh": (np.tanh, ("tanh",), 0),
    "op_tanh_fast": (np.tanh, ("exp", "div"), 40),  # 2**-3 where the difference loses most
    "op_erf": (_erf, ("erf",), 0),
    "op_sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ("exp", "div"), 1),
    "op_silu": (lambda x: x / (1 + np.exp(-x)), ("exp", "div"), 1),
    # sqrt(1/2), its product with x, the sum and two products
    "op_gelu": (_gelu, ("erf",), 5),
    "op_gelu_fast": (_gelu, ("exp", "div"), 14),
    **elementary.UNARY,
}
_POSITIVE = ("op_sqrt", "op_rsqrt", "op_log", "op_pow")
_SIZES = (1, 255, 4096, 10_007)


def _saxpy_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t = dtype(constexprs)
    for n in _SIZES:
        yield {"x": normal(rng, n, t), "y": normal(rng, n, t), "a": float(rng.uniform(-2, 2))}


def _saxpy_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    a = decode(encode(np.array([args["a"]]), t), t)[0]
    product = a * decode(args["x"], t)
    value = product + decode(args["y"], t)
    return {"y": Expected(value, _SAXPY_BOUND(product=product, value=value, T=t))}


_SAXPY_BOUND = bound("2 * rounding(product, T) + rounding(value, T)", product="a * x")


def op_name(op: object) -> str:
    """The name of an OP, which may be a function or what names one, as "module:function"."""
    return op.rpartition(":")[2] if isinstance(op, str) else getattr(op, "name", str(op))


def _values(rng: np.random.Generator, n: int, op: str, constexprs: Constexprs) -> np.ndarray:
    t = dtype(constexprs)
    x = normal(rng, n, t, 4.0)
    if op in _POSITIVE and t.is_float:
        x = np.abs(x) if t.name != "bf16" else x & np.uint16(0x7FFF)
    return x


def _unary_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, op = dtype(constexprs), op_name(constexprs["OP"])
    for n in _SIZES:
        yield {"x": _values(rng, n, op, constexprs), "y": empty(n, t)}
    if t.name == "f32":
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.0, -87.0, 3e38]
        yield {"x": np.float32(special), "y": empty(len(special), t)}


def _unary_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    fn, ops, roundings = UNARY[op_name(constexprs["OP"])]
    x = decode(args["x"], dtype(constexprs))
    with np.errstate(all="ignore"):
        value = fn(x)
    more = extra(op_name(constexprs["OP"]), x, value, constexprs["FAST"])
    return {"y": Expected(value, tolerance(value, ops, roundings, constexprs) + more)}


def _binary_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, op = dtype(constexprs), op_name(constexprs["OP"])
    for n in _SIZES:
        second = normal(rng, n, t, 4.0)
        yield {"a": _values(rng, n, op, constexprs), "b": second, "y": empty(n, t)}
    if not t.is_float:
        edges = np.array([t.min, -33, -8, -1, 0, 1, 3, 31, 32, t.max], t.storage)
        a, b = (side.reshape(-1).copy() for side in np.meshgrid(edges, edges))
        yield {"a": a, "b": b, "y": empty(a.size, t)}


def _binary_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t = dtype(constexprs)
    fn, ops, roundings = elementary.BINARY[op_name(constexprs["OP"])]
    with np.errstate(all="ignore"):
        value = fn(decode(args["a"], t), decode(args["b"], t))
    return {"y": Expected(value, tolerance(value, ops, roundings, constexprs))}


_WORDS = "the op table's bound of OP, then one rounding"
FAMILIES = (
    Family(
        saxpy,
        _saxpy_inputs,
        _saxpy_reference,
        "one multiplication, one addition, each rounded",
        {"floats": _SAXPY_BOUND},
    ),
    Family(unary, _unary_inputs, _unary_reference, _WORDS, BOUNDS),
    Family(binary, _binary_inputs, _binary_reference, _WORDS, {"floats": OP_BOUND}),
)
