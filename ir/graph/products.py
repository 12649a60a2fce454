"""Graph ops that multiply matrices, and the one that reads packed weights."""

from __future__ import annotations

from ..dtypes import DType, f16, f32, u8
from ..quantized import BLOCKS
from .table import AttrRow, Attrs, Types, primitive, require
from .types import TensorType


@primitive("matmul", 2, dtype=AttrRow(DType))
def _matmul(operands: Types, attrs: Attrs) -> Types:
    """Products of matrices, [..., m, k] and [..., k, n], of equal leading dimensions, summed in f32
    (f64 of f64, i32 of integers of 8 bits) and given as `dtype`."""
    a, b = operands
    out: DType = attrs["dtype"]
    require(a.rank >= 2 and b.rank >= 2, "a matrix has two dimensions at least")
    require(a.shape[:-2] == b.shape[:-2], "the leading dimensions differ: broadcast them first")
    require(a.shape[-1] == b.shape[-2], f"{a.shape[-1]} columns meet {b.shape[-2]} rows")
    require(out.computes, f"sums are no {out}")
    both_float = a.dtype.is_float and b.dtype.is_float and out.is_float
    bytes_ = a.dtype.is_int and b.dtype.is_int and max(a.dtype.bits, b.dtype.bits) == 8
    whole = bytes_ and out.is_int and out.bits == 32
    wide = (a.dtype.bits == 64) == (b.dtype.bits == 64) == (out.bits == 64)
    require((both_float and wide) or whole, f"no product of these is summed as {out}")
    return (a.with_shape((*a.shape[:-1], b.shape[-1])).with_dtype(out),)


@primitive("dequantize", 1, format=AttrRow(str, words=tuple(BLOCKS)), dtype=AttrRow(DType, f32))
def _dequantize(operands: Types, attrs: Attrs) -> Types:
    """Rows of a matrix from a block format's bytes, u8[rows, bytes of a row] (`ir.quantized`)."""
    (packed,) = operands
    block = BLOCKS[attrs["format"]]
    require(packed.dtype == u8 and packed.rank == 2, "packed rows are u8 of two dimensions")
    require(attrs["dtype"] in (f16, f32), f"weights become f16 or f32, not {attrs['dtype']}")
    count, rest = divmod(packed.shape[1], block.bytes)
    require(
        rest == 0, f"a row of {packed.shape[1]} bytes is no whole number of blocks of {block.bytes}"
    )
    return (TensorType(attrs["dtype"], (packed.shape[0], count * block.block)),)
