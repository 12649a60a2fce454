"""Products with weights as checkpoints hold them, [outputs, inputs], plain or packed."""

from __future__ import annotations

import math

from ...quantized import BLOCKS
from ..array import Array
from ..composite import composite
from ..functions import apply, matmul, widened
from ..table import AttrRow, require, require_float
from .activations import gelu, silu

_ACTIVATIONS = {"silu": silu, "gelu": lambda x: gelu(x, approximate="none")}
ACTIVATION = AttrRow(str, "silu", tuple(_ACTIVATIONS))


@composite("linear", (2, 3))
def linear(x: Array, weight: Array, *bias: Array) -> Array:
    """x[..., inputs] times the transpose of weight[outputs, inputs], plus a bias[outputs]; summed
    in f32, of the type of x."""
    require(weight.rank == 2, f"a weight is [outputs, inputs], not {weight.type}")
    return _product(x, weight, bias)


@composite("quantized_linear", (2, 3), format=AttrRow(str, words=tuple(BLOCKS)))
def quantized_linear(x: Array, packed: Array, *bias: Array, format: str) -> Array:
    """`linear` with a weight in a block format, u8[outputs, bytes of a row]."""
    return _product(x, apply("dequantize", packed, format=format), bias)


@composite("gated_mlp", 4, activation=ACTIVATION)
def gated_mlp(x: Array, gate: Array, up: Array, down: Array, *, activation: str) -> Array:
    """down(activation(gate(x)) * up(x)), each weight [outputs, inputs] (Shazeer,
    arXiv:2002.05202)."""
    hidden = _ACTIVATIONS[activation](linear(x, gate)) * linear(x, up)
    result: Array = linear(hidden, down)
    return result


def _product(x: Array, weight: Array, bias: tuple[Array, ...]) -> Array:
    require(x.rank >= 1, "a scalar is no row")
    require(x.shape[-1] == weight.shape[1], f"rows of {x.shape[-1]} meet {weight.type}")
    require_float(x.type)
    require_float(weight.type, "the weight")
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) if x.rank != 2 else x
    wide = widened(rows)
    total = matmul(wide, weight.cast(wide.dtype).T)
    for b in bias:
        require(b.shape == weight.shape[:1], f"there is one bias an output, not {b.type}")
        total = total + b.cast(total.dtype)
    return total.reshape(*x.shape[:-1], weight.shape[0]).cast(x.dtype)
