"""Losses of classification: log-softmax, then the negated entry of each target, weighted."""

from __future__ import annotations

import math

from ..layout import full
from ..machine import Machine
from ..node import Node
from ..pieces import binary, cast, chosen, compared, reduced, unary
from ..registry import op
from ..tensor import Tensor
from .indexing import along, taken
from .reductions import back, last
from .softmax import along_last


def _loss(m: Machine, node: Node, logs: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """-logs at the targets, which lie along axis 1; 0 where a target is to be ignored."""
    target = cast(m, target, "i32")
    ignored = node.attribute("ignore_index")
    left_out = None
    if ignored is not None:
        left_out = compared(m, "eq", target, m.constant(ignored, "i32"))
        target = chosen(m, left_out, m.constant(0, "i32"), target)
    inner = math.prod(logs.shape[2:])
    rows = logs.reshaped(logs.shape[0], logs.shape[1], inner)
    picked = along(m, rows, target.reshaped(logs.shape[0], 1, inner), 1)
    loss = unary(m, "neg", picked.reshaped(*target.shape))
    factors = None
    if weight is not None:
        factors = taken(m, weight, target.reshaped(target.size), 0).reshaped(*target.shape)
    elif left_out is not None:
        factors = full(m, target.shape, 1, logs.dtype)
    if left_out is not None and factors is not None:
        factors = chosen(m, left_out, m.constant(0, logs.dtype), factors)
    if factors is not None:
        loss = binary(m, "mul", loss, factors)
    return _together(m, node, loss, factors)


def _together(m: Machine, node: Node, loss: Tensor, factors: Tensor | None) -> Tensor:
    mode, axes = node.attribute("reduction"), list(range(loss.rank))
    if mode == "none":
        return loss
    if mode == "sum" or factors is not None:
        total = reduced(m, "sum", loss, axes, False)
        if mode == "sum" or factors is None:
            return total
        return binary(m, "div", total, reduced(m, "sum", factors, axes, False))
    return reduced(m, "mean", loss, axes, False)


@op("NegativeLogLikelihoodLoss")
def likelihood(m: Machine, node: Node) -> Tensor:
    """Of log-probabilities."""
    return _loss(m, node, node[0], node[1], node.get(2))


@op("SoftmaxCrossEntropyLoss")
def cross_entropy(m: Machine, node: Node) -> tuple[Tensor, Tensor]:
    """Of scores, along axis 1; the log-probabilities are the second output."""
    x = node[0]
    logs = back(m, along_last(m, "log_softmax", last(m, x, 1)), 1)
    return _loss(m, node, logs, node[1], node.get(2)), logs
