"""Attention as its definition: a product, a bias, softmax, a product; and rotary positions.

Heads of the cases are of any size, so that the fused kernels, which come for some, have no part.
"""

from __future__ import annotations

import math

import numpy as np

from ..layout import expanded, full, joined, permuted
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, chosen, compared, reduced, scaled, unary
from ..refusal import InvalidNode, Missing
from ..registry import op
from ..tensor import Tensor, name_of_type
from .matmul import product
from .softmax import along_last


def _heads(m: Machine, x: Tensor, heads: int | None) -> Tensor:
    """[batch, heads, length, size], also of [batch, length, heads * size]."""
    if x.rank == 4:
        return x
    if not heads:
        raise InvalidNode("a tensor of three axes without a number of heads", expected="num_heads")
    batch, length, width = x.shape
    return permuted(m, x.reshaped(batch, length, heads, width // heads), (0, 2, 1, 3))


def _shared(m: Machine, x: Tensor, heads: int) -> Tensor:
    """Each head as often as queries share it."""
    batch, own, length, size = x.shape
    if own == heads:
        return x
    apart = x.reshaped(batch, own, 1, length, size)
    wide = expanded(m, apart, (batch, own, heads // own, length, size))
    return wide.reshaped(batch, heads, length, size)


def _allowed(node: Node, lengths: np.ndarray | None, before: int, q: int, kv: int) -> np.ndarray:
    """Which keys a query may see by place alone: [batch or 1, 1, q, kv]. A constant, of sizes and
    of how many keys are valid."""
    left = node.attribute("left_window_size", -1)
    right = node.attribute("right_window_size", -1)
    offset = np.array([before]) if lengths is None else lengths - q
    key = np.arange(kv).reshape(1, 1, 1, kv)
    at = np.arange(q).reshape(1, 1, q, 1) + offset.reshape(-1, 1, 1, 1)
    fits = np.ones(np.broadcast_shapes(key.shape, at.shape), bool)
    if node.attribute("is_causal", 0):
        fits &= key <= at
    if left >= 0:
        fits &= at - key <= left
    if right >= 0:
        fits &= key - at <= right
    if lengths is not None:
        fits &= key < lengths.reshape(-1, 1, 1, 1)
    return fits


def _bias(m: Machine, mask: Tensor | None, fits: np.ndarray, dtype: str) -> Tensor:
    """What is added to the scores: the mask, and minus infinity where a key may not be seen."""
    zero, never = m.constant(0, dtype), m.constant(-math.inf, dtype)
    bias = zero
    if mask is not None:
        short = fits.shape[-1] - mask.shape[-1]
        if short > 0:
            shape = (*mask.shape[:-1], short)
            rest = (
                full(m, shape, False, "bool")
                if mask.dtype == "bool"
                else full(m, shape, -math.inf, mask.dtype)
            )
            mask = joined(m, [mask, rest], mask.rank - 1)
        bias = chosen(m, mask, zero, never) if mask.dtype == "bool" else cast(m, mask, dtype)
    return bias if fits.all() else chosen(m, m.upload(fits), bias, never)


def _scores(m: Machine, node: Node, q: Tensor, k: Tensor) -> Tensor:
    """q and k each scaled by the root of the factor, as the operator's definition has it."""
    factor = node.attribute("scale")
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if factor is None else factor)
    keys = permuted(m, scaled(m, k, root), (0, 1, 3, 2))
    return product(m, scaled(m, q, root), keys)


@op("Attention")
def attention(m: Machine, node: Node) -> tuple[Tensor | None, ...]:
    """Rows without a key give zeros."""
    heads, kv_heads = node.attribute("q_num_heads"), node.attribute("kv_num_heads")
    q, k, v = (_heads(m, node[n], kv_heads if n else heads) for n in range(3))
    past = node.get(4)
    before = 0 if past is None else past.shape[2]
    if past is not None:
        k, v = joined(m, [past, k], 2), joined(m, [node[5], v], 2)
    lengths = node.get(6)
    counts = None if lengths is None else m.host(lengths).reshape(-1)
    fits = _allowed(node, counts, before, q.shape[2], k.shape[2])
    mask = node.get(3)
    bias = None if mask is None and fits.all() else _bias(m, mask, fits, q.dtype)
    raw = _scores(m, node, q, _shared(m, k, q.shape[1]))
    soft = node.attribute("softcap", 0.0)
    capped = raw
    if soft:
        capped = scaled(m, unary(m, "tanh", scaled(m, raw, 1 / soft)), soft)
    scores = capped if bias is None else binary(m, "add", capped, bias)
    precision = node.attribute("softmax_precision")
    inner = q.dtype if not precision else name_of_type(precision)
    weights = cast(m, along_last(m, "softmax", cast(m, scores, inner)), q.dtype)
    if bias is not None:
        weights = _without_keys(m, weights, bias)
    y = product(m, weights, _shared(m, v, q.shape[1]))
    if node[0].rank == 3:
        batch, count, length, size = y.shape
        y = permuted(m, y, (0, 2, 1, 3)).reshaped(batch, length, count * size)
    shown = (raw, capped, scores, weights)[node.attribute("qk_matmul_output_mode", 0)]
    return y, k, v, shown


@op("FlexAttention", domain="ai.onnx.preview")
def flexible(m: Machine, node: Node) -> Tensor:
    """Softmax and what follows are in f32, or in the precision that is asked for."""
    for name in ("score_mod", "prob_mod"):
        if node.attribute(name) is not None:
            raise Missing(f"a fused {name} of FlexAttention")
    q, k, v = node[0], node[1], node[2]
    precision = node.attribute("softmax_precision")
    inner = name_of_type(precision) if precision else q.dtype if q.dtype == "f64" else "f32"
    scores = cast(m, _scores(m, node, q, _shared(m, k, q.shape[1])), inner)
    values = cast(m, _shared(m, v, q.shape[1]), inner)
    return cast(m, product(m, along_last(m, "softmax", scores), values), v.dtype)


def _without_keys(m: Machine, weights: Tensor, bias: Tensor) -> Tensor:
    """Zeros in the rows whose bias is minus infinity throughout."""
    wide = cast(m, bias, "f32")
    if wide.rank == 0:
        return weights
    most = reduced(m, "max", wide, [wide.rank - 1], True)
    nothing = compared(m, "eq", most, m.constant(-math.inf, "f32"))
    return chosen(m, nothing, m.constant(0, weights.dtype), weights)


@op("RotaryEmbedding")
def rotary(m: Machine, node: Node) -> Tensor:
    """The caches become one table, of which each token takes the row of its position."""
    x, cosines, sines, given = node[0], node[1], node[2], node.get(3)
    heads = node.attribute("num_heads", 0)
    tokens = x
    if x.rank == 4:
        tokens = permuted(m, x, (0, 2, 1, 3))
    else:
        tokens = x.reshaped(x.shape[0], x.shape[1], heads, x.shape[2] // heads)
    batch, length, count, size = tokens.shape
    table = cast(m, joined(m, [cosines, sines], cosines.rank - 1), "f32")
    if given is not None:
        rows = cast(m, given, "i32")
    else:
        rows = m.upload(np.arange(batch * length, dtype=np.int32))
    y = m.empty(tokens.shape, x.dtype)
    dims = node.attribute("rotary_embedding_dim", 0) or size
    layout = "interleaved" if node.attribute("interleaved", 0) else "half"
    m.launch("rotary", f"{layout}_{x.dtype}", tokens, rows, table, y, count, size, dims)
    return permuted(m, y, (0, 2, 1, 3)) if x.rank == 4 else y.reshaped(*x.shape)


@op("SwiGLU")
def swiglu(m: Machine, node: Node) -> Tensor:
    """a * sigmoid(alpha * a) * b."""
    a, b, alpha = node[0], node[1], node.attribute("alpha", 1.0)
    if alpha == 1 and m.has("gated", f"swiglu_{a.dtype}"):
        y = m.empty(a.shape, a.dtype)
        m.launch("gated", f"swiglu_{a.dtype}", a, b, y)
        return y
    gate = binary(m, "mul", a, unary(m, "sigmoid", scaled(m, a, alpha)))
    return binary(m, "mul", gate, b)
