"""Arithmetic, one element at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from ..layout import full
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, chosen, compared, scaled, unary
from ..refusal import Missing
from ..registry import op
from ..tensor import FLOATS, Tensor

_UNARY = {
    "Abs": "abs",
    "Neg": "neg",
    "Relu": "relu",
    "Sqrt": "sqrt",
    "Exp": "exp",
    "Log": "log",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Erf": "erf",
    "Sigmoid": "sigmoid",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "rint",
    "Sign": "sign",
    "Softplus": "softplus",
    "HardSwish": "hardswish",
    "Mish": "mish",
}


@op(*_UNARY)
def elementary(m: Machine, node: Node) -> Tensor:
    """One kernel for each."""
    return unary(m, _UNARY[node.op], node[0])


@op("Reciprocal")
def reciprocal(m: Machine, node: Node) -> Tensor:
    """1 / x."""
    return binary(m, "div", m.constant(1, node[0].dtype), node[0])


@op("Softsign")
def softsign(m: Machine, node: Node) -> Tensor:
    """x / (1 + |x|)."""
    x = node[0]
    return binary(m, "div", x, binary(m, "add", unary(m, "abs", x), m.constant(1, x.dtype)))


_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


@op(*_BINARY)
def arithmetic(m: Machine, node: Node) -> Tensor:
    """Integers wrap, and a quotient of them is cut towards zero."""
    return binary(m, _BINARY[node.op], node[0], node[1])


@op("PRelu")
def prelu(m: Machine, node: Node) -> Tensor:
    """x where it is not negative, else slope * x."""
    x, slope = node[0], node[1]
    below = compared(m, "lt", x, m.constant(0, x.dtype))
    return chosen(m, below, binary(m, "mul", x, slope), x)


@op("Pow")
def power(m: Machine, node: Node) -> Tensor:
    """In the base's type."""
    return binary(m, "pow", node[0], cast(m, node[1], node[0].dtype))


@op("Mod")
def modulo(m: Machine, node: Node) -> Tensor:
    """fmod: with the sign of the dividend, as C has it; else with that of the divisor."""
    return binary(m, "fmod" if node.attribute("fmod") else "mod", node[0], node[1])


@op("Max", "Min")
def extremes(m: Machine, node: Node) -> Tensor:
    """Of any number of tensors; a NaN loses."""
    name = node.op.lower()
    return reduce(lambda a, b: binary(m, name, a, b), _all(node))


@op("Sum", "Mean")
def folded(m: Machine, node: Node) -> Tensor:
    """Of any number of tensors."""
    parts = _all(node)
    total = reduce(lambda a, b: binary(m, "add", a, b), parts)
    return scaled(m, total, 1 / len(parts)) if node.op == "Mean" else total


def _all(node: Node) -> list[Tensor]:
    return [node[n] for n in range(len(node.inputs))]


@op("Clip")
def clip(m: Machine, node: Node) -> Tensor:
    """Between two bounds, each of which may be left out."""
    x = node[0]
    low, high = _bound(m, node, "min", 1), _bound(m, node, "max", 2)
    if x.dtype in ("f32", "f16"):
        limits = [-math.inf if low is None else low, math.inf if high is None else high]
        if low is None and high is None:
            return x
        y = m.empty(x.shape, x.dtype)
        m.launch("limit", x.dtype, x, y, *limits)
        return y
    for name, value in (("max", low), ("min", high)):
        x = x if value is None else binary(m, name, x, m.constant(value, x.dtype))
    return x


def _bound(m: Machine, node: Node, name: str, position: int) -> float | None:
    given = node.attributes.get(name)
    tensor = node.get(position)
    if tensor is not None:
        given = m.host(tensor).reshape(-1)[0]
    return None if given is None else np.asarray(given).item()


def _where_below(m: Machine, x: Tensor, bound: float, below: Tensor, other: Tensor) -> Tensor:
    return chosen(m, compared(m, "lt", x, m.constant(bound, x.dtype)), below, other)


def _in_f32(m: Machine, x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """What is made of several kernels is rounded to a narrower type once, at the end."""
    if x.dtype not in FLOATS or x.dtype == "f64":
        raise Missing(f"kernels of several steps for {x.dtype}")
    return cast(m, compute(cast(m, x, "f32")), x.dtype)


@op("LeakyRelu")
def leaky_relu(m: Machine, node: Node) -> Tensor:
    """x where it is not negative, else alpha * x."""
    alpha = node.attribute("alpha")
    return _in_f32(m, node[0], lambda x: _where_below(m, x, 0, scaled(m, x, alpha), x))


@op("Elu", "Celu", "Selu")
def elu(m: Machine, node: Node) -> Tensor:
    """gamma * (x where it is positive, else alpha * (exp(x / beta) - 1))."""
    alpha = node.attribute("alpha")
    gamma = node.attribute("gamma", 1.0)
    beta = alpha if node.op == "Celu" else 1.0

    def compute(x: Tensor) -> Tensor:
        inside = binary(m, "div", x, m.constant(beta, "f32")) if beta != 1 else x
        low = scaled(m, unary(m, "expm1", inside), alpha)
        return scaled(m, _where_below(m, x, 0, low, x), gamma)

    return _in_f32(m, node[0], compute)


@op("ThresholdedRelu")
def thresholded_relu(m: Machine, node: Node) -> Tensor:
    """x where it is above alpha, else 0."""
    x = node[0]
    bound = m.constant(node.attribute("alpha"), x.dtype)
    return chosen(m, compared(m, "lt", bound, x), x, m.constant(0, x.dtype))


@op("Shrink")
def shrink(m: Machine, node: Node) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, else 0."""
    x, bias = node[0], node.attribute("bias")
    bound = node.attribute("lambd")
    shift = m.constant(bias, x.dtype)
    above = compared(m, "lt", m.constant(bound, x.dtype), x)
    inner = chosen(m, above, binary(m, "sub", x, shift), m.constant(0, x.dtype))
    return _where_below(m, x, -bound, binary(m, "add", x, shift), inner)


@op("HardSigmoid")
def hard_sigmoid(m: Machine, node: Node) -> Tensor:
    """alpha * x + beta between 0 and 1."""

    def compute(x: Tensor) -> Tensor:
        line = binary(
            m,
            "add",
            scaled(m, x, node.attribute("alpha")),
            m.constant(node.attribute("beta"), "f32"),
        )
        y = m.empty(x.shape, "f32")
        m.launch("limit", "f32", line, y, 0.0, 1.0)
        return y

    return _in_f32(m, node[0], compute)


@op("Gelu")
def gelu(m: Machine, node: Node) -> Tensor:
    """By erf, or the form with tanh."""
    if node.attribute("approximate") == "none":
        return unary(m, "gelu", node[0])

    def compute(x: Tensor) -> Tensor:
        cube = binary(m, "mul", binary(m, "mul", x, x), x)
        inside = binary(m, "add", x, scaled(m, cube, 0.044715))
        bend = unary(m, "tanh", scaled(m, inside, math.sqrt(2 / math.pi)))
        return binary(m, "mul", scaled(m, x, 0.5), binary(m, "add", bend, m.constant(1, "f32")))

    return _in_f32(m, node[0], compute)


@op("Swish")
def swish(m: Machine, node: Node) -> Tensor:
    """x times the sigmoid of alpha * x."""
    alpha = node.attribute("alpha")
    if alpha == 1:
        return unary(m, "silu", node[0])
    return _in_f32(
        m, node[0], lambda x: binary(m, "mul", x, unary(m, "sigmoid", scaled(m, x, alpha)))
    )


@op("Dropout")
def dropout(m: Machine, node: Node) -> tuple[Tensor, Tensor]:
    """Nothing falls out but in training, of which the draw is the implementation's."""
    ratio = node.attribute("ratio") if node.version < 12 else None
    given = node.get(1)
    ratio = 0.5 if ratio is None else ratio
    ratio = ratio if given is None else float(m.host(given))
    training = node.get(2)
    if training is not None and bool(m.host(training)) and ratio:
        raise Missing("the draw of a training Dropout")
    return node[0], full(m, node[0].shape, True, "bool")
