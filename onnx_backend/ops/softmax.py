"""Softmax and its relatives, along any axis."""

from __future__ import annotations

import math

import numpy as np

from ..layout import expanded
from ..machine import Machine
from ..node import Node
from ..pieces import cast, chosen, compared
from ..registry import op
from ..tensor import Tensor
from .reductions import arg_greatest, back, last


def along_last(m: Machine, kernel: str, x: Tensor) -> Tensor:
    """softmax or log_softmax of every row along the last axis."""
    if not m.has(kernel, x.dtype) and x.dtype in ("f16", "bf16"):
        return cast(m, along_last(m, kernel, cast(m, x, "f32")), x.dtype)
    y = m.empty(x.shape, x.dtype)
    m.launch(kernel, x.dtype, x, y, x.shape[-1])
    return y


def _rows(m: Machine, node: Node) -> tuple[Tensor, int]:
    """x with its axis last; before opset 13, all axes from that one on are one."""
    x = node[0]
    axis = node.axis(x.rank, default=1 if node.version < 13 else -1)
    if node.version >= 13:
        return last(m, x, axis), axis
    return x.reshaped(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), 1


@op("Softmax", "LogSoftmax")
def softmax(m: Machine, node: Node) -> Tensor:
    """In f32, rounded once."""
    rows, axis = _rows(m, node)
    found = along_last(m, "softmax" if node.op == "Softmax" else "log_softmax", rows)
    return back(m, found, axis).reshaped(*node[0].shape)


@op("Hardmax")
def hardmax(m: Machine, node: Node) -> Tensor:
    """1 at the first greatest of each row, 0 elsewhere."""
    rows, axis = _rows(m, node)
    place = arg_greatest(m, rows)
    columns = m.upload(np.arange(rows.shape[-1], dtype=np.int32))
    at = expanded(m, place.reshaped(*place.shape, 1), rows.shape)
    hot = compared(m, "eq", at, columns)
    found = chosen(m, hot, m.constant(1, rows.dtype), m.constant(0, rows.dtype))
    return back(m, found, axis).reshaped(*node[0].shape)
