"""Arithmetic, one element at a time. What is made of several ops is computed in f32 where its type
is narrower, and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from ....ir.graph import functions as fn
from ....ir.graph.array import Array, binary, common_shape, together
from ....ir.graph.composites.activations import gelu as gelu_of
from ....ir.graph.composites.activations import sigmoid, silu
from ..node import Node
from ..registry import op

_UNARY = {
    "Abs": "abs", "Neg": "neg", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Sin": "sin",
    "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh",
    "Cosh": "cosh", "Tanh": "tanh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Erf": "erf", "Floor": "floor", "Ceil": "ceil", "Round": "rint", "Sign": "sign",
    "IsNaN": "isnan", "Not": "not", "BitwiseNot": "not", "Sigmoid": "sigmoid",
}  # fmt: skip


@op(*_UNARY)
def unary(node: Node) -> Array:
    """One op for each."""
    return fn.apply(_UNARY[node.op], node[0])


@op("Reciprocal")
def reciprocal(node: Node) -> Array:
    """1 / x."""
    return 1.0 / node[0]


def pair(node: Node) -> tuple[Array, Array]:
    """Two operands; before opset 7 the second one may stand at an axis of the first."""
    a, b = node[0], node[1]
    axis = node.attributes.get("axis")
    if node.version < 7 and axis is not None and b.rank:
        b = b.reshape(*b.shape, *[1] * (a.rank - node.checked(axis, a.rank) - b.rank))
    return a, b


def quotient(a: Array, b: Array) -> Array:
    """Of integers cut towards zero."""
    if not a.dtype.is_int:
        return a / b
    floor = a // b
    if not a.dtype.is_signed:
        return floor
    rest = a % b
    return fn.where((rest != 0) & ((rest < 0) != (a < 0)), floor + 1, floor)


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: quotient(*together(a, b)),
}


@op(*_BINARY)
def arithmetic(node: Node) -> Array:
    """Integers wrap."""
    return _BINARY[node.op](*pair(node))


@op("Mod")
def modulo(node: Node) -> Array:
    """fmod: with the sign of the dividend, as C has it; else with that of the divisor."""
    a, b = together(node[0], node[1])
    if a.dtype.is_float:
        rest = binary("fmod", a, b)
        if node.attribute("fmod"):
            return rest
        return fn.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    rest = a % b
    if not node.attribute("fmod") or not a.dtype.is_signed:
        return rest
    return fn.where((rest != 0) & ((rest < 0) != (a < 0)), rest - b, rest)


@op("Pow")
def power(node: Node) -> Array:
    """In the base's type. An integer to a known small power is a product; others are computed in
    f64, which holds all that an i32 does."""
    (x, y), given = pair(node), node.value(1)
    exponent = given.known.item() if given.known is not None and given.known.size == 1 else None
    shape = common_shape([x.shape, y.shape])
    if exponent == 2:
        return (x * x).broadcast_to(*shape)
    if x.dtype.is_float:
        return binary("pow", x, y.cast(x.dtype))
    if exponent is not None and exponent in range(1, 9):
        return reduce(lambda a, b: a * b, [x] * int(exponent)).broadcast_to(*shape)
    if x.dtype.bits > 32:
        raise node.lacks(f"pow of {x.dtype}")
    exact = binary("pow", x.cast("f64"), y.cast("f64"))
    near = fn.rint(exact)  # what is an integer may come out just below it
    return fn.where(abs(exact - near) <= abs(exact) * 2.0**-50, near, exact).cast(x.dtype)


@op("Max", "Min")
def extremes(node: Node) -> Array:
    """Of any number of tensors; a NaN loses."""
    name = node.op.lower()
    return reduce(lambda a, b: binary(name, a, b), node.all())


@op("Sum", "Mean")
def several(node: Node) -> Array:
    """Of any number of tensors."""
    parts = node.all()
    wide = [fn.widened(part) for part in parts]
    total = reduce(lambda a, b: a + b, wide)
    return (total / float(len(parts)) if node.op == "Mean" else total).cast(parts[0].dtype)


@op("Clip")
def clip(node: Node) -> Array:
    """Between two bounds, each of which may be left out."""
    x = node[0]
    for name, place, limit in (("min", 1, fn.maximum), ("max", 2, fn.minimum)):
        bound = node.attributes.get(name)
        given = node.get(place)
        if given is not None:
            x = limit(x, given.reshape(()) if given.size == 1 else given)
        elif bound is not None:
            x = limit(x, float(bound))
    return x


def wide(node: Node, compute: Callable[[Array], Array]) -> Array:
    """Computed in f32 (f64 of f64) and rounded once."""
    x = node[0]
    return compute(fn.widened(x)).cast(x.dtype)


@op("Relu")
def relu(node: Node) -> Array:
    """0 where x is below."""
    return fn.maximum(node[0], 0)


@op("PRelu")
def prelu(node: Node) -> Array:
    """x where it is not negative, else slope * x."""
    x, slope = node[0], node[1]
    return fn.where(x < 0, x * slope, x)


@op("LeakyRelu")
def leaky_relu(node: Node) -> Array:
    """x where it is not negative, else alpha * x."""
    alpha = node.attribute("alpha")
    return wide(node, lambda x: fn.where(x < 0, x * alpha, x))


@op("Elu", "Celu", "Selu")
def elu(node: Node) -> Array:
    """gamma * (x where it is positive, else alpha * (exp(x / beta) - 1))."""
    alpha, gamma = node.attribute("alpha"), node.attribute("gamma", 1.0)
    beta = alpha if node.op == "Celu" else 1.0
    return wide(
        node, lambda x: gamma * fn.where(x > 0, x, alpha * fn.expm1(x / beta if beta != 1 else x))
    )


@op("ThresholdedRelu")
def thresholded_relu(node: Node) -> Array:
    """x where it is above alpha, else 0."""
    x = node[0]
    return fn.where(x > node.attribute("alpha"), x, 0)


@op("Shrink")
def shrink(node: Node) -> Array:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, bias, bound = node[0], node.attribute("bias"), node.attribute("lambd")
    if not x.dtype.is_float:
        raise node.lacks(f"Shrink of {x.dtype}")
    return fn.where(x < -bound, x + bias, fn.where(x > bound, x - bias, 0))


@op("HardSigmoid")
def hard_sigmoid(node: Node) -> Array:
    """alpha * x + beta between 0 and 1."""
    alpha, beta = node.attribute("alpha"), node.attribute("beta")
    return wide(node, lambda x: fn.minimum(fn.maximum(x * alpha + beta, 0.0), 1.0))


@op("HardSwish")
def hard_swish(node: Node) -> Array:
    """x times a line between 0 and 1."""
    return wide(node, lambda x: x * fn.minimum(fn.maximum(x / 6.0 + 0.5, 0.0), 1.0))


def _softplus(x: Array) -> Array:
    """log(1 + exp(x)) without overflow."""
    return fn.maximum(x, 0.0) + fn.log1p(fn.exp(-abs(x)))


@op("Softplus")
def softplus(node: Node) -> Array:
    """log(1 + exp(x))."""
    return wide(node, _softplus)


@op("Softsign")
def softsign(node: Node) -> Array:
    """x / (1 + |x|)."""
    return wide(node, lambda x: x / (1.0 + abs(x)))


@op("Mish")
def mish(node: Node) -> Array:
    """x tanh(log(1 + exp(x)))."""
    return wide(node, lambda x: x * fn.tanh(_softplus(x)))


@op("Gelu")
def gelu(node: Node) -> Array:
    """By erf, or the form with tanh."""
    found: Array = gelu_of(node[0], approximate=node.attribute("approximate"))
    return found


@op("Swish")
def swish(node: Node) -> Array:
    """x times the sigmoid of alpha * x."""
    alpha = node.attribute("alpha")
    if alpha == 1:
        found: Array = silu(node[0])
        return found
    return wide(node, lambda x: x * sigmoid(x * alpha))


@op("Dropout")
def dropout(node: Node) -> tuple[Array | np.ndarray, ...]:
    """Nothing falls out but in training, of which the draw is the implementation's."""
    ratio = node.attribute("ratio", 0.5) if node.version < 12 else 0.5
    training = node.version < 7 and not node.attribute("is_test", 0)
    if node.given(1) is not None:
        ratio = node.number(1, "the ratio")
    if node.given(2) is not None:
        training = bool(node.number(2, "the mode"))
    if training and ratio:
        raise node.lacks("the draw of a training Dropout")
    x = node[0]
    if not node.wants(1):
        return (x,)
    kind = "bool" if node.version >= 10 else x.dtype
    return x, node.builder.literal(1, kind).broadcast_to(*x.shape)
