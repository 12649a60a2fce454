"""Attention without softmax, by a state that each token changes: a few launches a token."""

from __future__ import annotations

import math

from ..layout import expanded, full, joined, moved, permuted
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, scaled, unary
from ..registry import op
from ..tensor import Tensor
from .matmul import product


def _apart(m: Machine, x: Tensor, heads: int) -> Tensor:
    """[batch, heads, length, size] of [batch, length, heads * size], in f32."""
    batch, length, width = x.shape
    wide = cast(m, x, "f32").reshaped(batch, length, heads, width // heads)
    return permuted(m, wide, (0, 2, 1, 3))


def _token(m: Machine, x: Tensor, n: int) -> Tensor:
    return moved(m, x, lambda v: v[:, :, n : n + 1])


@op("LinearAttention")
def linear(m: Machine, node: Node) -> tuple[Tensor, Tensor]:
    """state = exp(decay) * state + k outer v, of which v may be corrected by what k finds; the
    result is scale * q @ state. In f32."""
    heads, own = node.attribute("q_num_heads"), node.attribute("kv_num_heads")
    q, k, v = (_apart(m, node[n], own if n else heads) for n in range(3))
    past, decay, beta = node.get(3), node.get(4), node.get(5)
    batch, _, length, width = q.shape
    state = full(m, (batch, own, width, v.shape[3]), 0, "f32")
    state = state if past is None else cast(m, past, "f32")
    gates = None if decay is None else unary(m, "exp", _apart(m, decay, own))
    rates = None if beta is None else _apart(m, beta, own if beta.shape[2] == own else 1)
    outputs = []
    for n in range(length):
        key, value = _token(m, k, n), _token(m, v, n)
        if gates is not None:  # of each row of the state
            state = binary(m, "mul", state, permuted(m, _token(m, gates, n), (0, 1, 3, 2)))
        if rates is not None:
            away = binary(m, "sub", value, product(m, key, state))
            value = binary(m, "mul", _token(m, rates, n), away)
        state = binary(m, "add", state, binary(m, "mul", permuted(m, key, (0, 1, 3, 2)), value))
        outputs.append(product(m, _token(m, q, n), _repeated(m, state, heads)))
    factor = node.attribute("scale", 0.0) or 1 / math.sqrt(width)
    y = permuted(m, scaled(m, joined(m, outputs, 2), factor), (0, 2, 1, 3))
    y = y.reshaped(batch, length, heads * v.shape[3])
    return cast(m, y, node[0].dtype), cast(m, state, (past or node[0]).dtype)


def _repeated(m: Machine, x: Tensor, heads: int) -> Tensor:
    """Each head as often as queries share it."""
    batch, own, *inner = x.shape
    if own == heads:
        return x
    apart = x.reshaped(batch, own, 1, *inner)
    return expanded(m, apart, (batch, own, heads // own, *inner)).reshaped(batch, heads, *inner)
