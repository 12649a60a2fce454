"""Products of matrices, summed in f64 and rounded once, and packed weights."""

from __future__ import annotations

import numpy as np

from ...quantized import BLOCKS, decode
from ..core import Node
from .precision import Array, Precision
from .rows import row


@row("matmul")
def _matmul(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    a, b = operands
    dtype = node.results[0].type.dtype
    wide = np.float64 if dtype.is_float else np.int64
    return [precision.rounded(a.astype(wide) @ b.astype(wide), dtype)]


@row("dequantize")
def _dequantize(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    form = BLOCKS[str(node.attr("format"))]
    return [precision.rounded(decode(operands[0], form), node.results[0].type.dtype)]
