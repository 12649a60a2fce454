"""Softmax and norms of rows."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.graph.core import Node
from ..lowering import Lowering
from ..refusal import Missing
from ..view import View
from .copies import copied


def _last_axis(node: Node) -> None:
    if node.attr("axis") != node.operands[0].type.rank - 1:
        raise Missing("a kernel along another dimension than the last")


def _rows(kernel: str) -> Callable[[Lowering, Node], tuple[View, ...]]:
    def rule(c: Lowering, node: Node) -> tuple[View, ...]:
        _last_axis(node)
        x = c.view(node.operands[0])
        y = c.make(x.type)
        c.launch(kernel, str(x.dtype), x, y, x.shape[-1])
        return (y,)

    return rule


def _rms_norm(c: Lowering, node: Node) -> tuple[View, ...]:
    x, weight = map(c.view, node.operands)
    y = c.make(x.type)
    _same(x, weight)
    c.launch("rmsnorm", str(x.dtype), x, weight, y, x.shape[-1], _eps(node))
    return (y,)


def _add_rms_norm(c: Lowering, node: Node) -> tuple[View, ...]:
    """The sum is made in the memory of one of the two, if nothing else reads it."""
    x, residual, weight = map(c.view, node.operands)
    _same(x, residual, weight)
    if c.owned(x) and not c.owned(residual):
        x, residual = residual, x
    own = c.owned(residual) and x.storage != residual.storage
    total = residual if own else copied(c, residual, c.make(residual.type))
    y = c.make(x.type)
    c.launch("rmsnorm_residual", str(x.dtype), x, total, weight, y, x.shape[-1], _eps(node))
    return y, total


def _layer_norm(c: Lowering, node: Node) -> tuple[View, ...]:
    x, weight, bias = map(c.view, node.operands)
    _same(x, weight, bias)
    y = c.make(x.type)
    c.launch("layernorm", str(x.dtype), x, weight, bias, y, x.shape[-1], _eps(node))
    return (y,)


def _eps(node: Node) -> float:
    eps = node.attr("eps")
    assert isinstance(eps, float)
    return eps


def _same(x: View, *others: View) -> None:
    for other in others:
        if other.dtype != x.dtype:
            raise Missing(f"a norm of {x.dtype} with weights of {other.dtype}")


RULES = {
    "softmax": (_rows("softmax"),),
    "log_softmax": (_rows("log_softmax"),),
    "rms_norm": (_rms_norm,),
    "add_rms_norm": (_add_rms_norm,),
    "layer_norm": (_layer_norm,),
}
