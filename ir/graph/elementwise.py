"""Elementwise graph ops: those of the kernel op table, on tensors of one shape.

Nothing broadcasts by itself here; the builder writes `broadcast` where shapes differ. Their types
and what they mean are the rows of `ir.ops`.
"""

from __future__ import annotations

from ..dtypes import DType
from ..ops import ROWS, OpTypeError
from ..ops import infer as infer_scalar
from .table import AttrRow, Attrs, GraphOp, Types, define, primitive, require
from .types import GraphTypeError, TensorType

ELEMENTWISE = frozenset((
    "neg", "abs", "sign", "sqrt", "rsqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "erfc", "floor", "ceil", "trunc", "rint", "not", "isnan", "isinf", "isfinite",
    "popcount", "clz", "ctz",
    "add", "sub", "mul", "div", "floordiv", "fmod", "mod", "pow", "min", "max", "atan2", "copysign",
    "and", "or", "xor", "shl", "shr",
    "eq", "ne", "lt", "le", "gt", "ge", "fma", "select",
))  # fmt: skip


def _shape(operands: Types) -> tuple[int, ...]:
    shape = operands[0].shape
    for t in operands[1:]:
        require(t.shape == shape, "the shapes differ: broadcast them first")
    return shape


def _rule(name: str, operands: Types) -> Types:
    shape = _shape(operands)
    try:
        (result,) = infer_scalar(name, tuple(t.dtype for t in operands), {})
    except OpTypeError as error:
        raise GraphTypeError(str(error)) from error
    assert isinstance(result, DType)
    return (TensorType(result, shape),)


def _define(name: str) -> None:
    def rule(operands: Types, attrs: Attrs) -> Types:
        return _rule(name, operands)

    row = ROWS[name]
    doc = row.doc or f"{name}, element by element"
    define(GraphOp(name, (row.arity, row.arity), rule, doc=doc))


for _name in sorted(ELEMENTWISE):
    _define(_name)


@primitive("cast", 1, dtype=AttrRow(DType))
def _cast(operands: Types, attrs: Attrs) -> Types:
    """The values as another element type: integers wrap, floats saturate as integers (NaN is 0) and
    round to nearest even, a bool is `!= 0`."""
    return (operands[0].with_dtype(attrs["dtype"]),)


@primitive("bitcast", 1, dtype=AttrRow(DType))
def _bitcast(operands: Types, attrs: Attrs) -> Types:
    """The same bits as an element type of the same width."""
    (x,) = operands
    wanted: DType = attrs["dtype"]
    require(not (x.dtype.is_bool or wanted.is_bool), "a bool has no bits of its own")
    bits = f"{x.dtype} has {x.dtype.bits} bits, {wanted} {wanted.bits}"
    require(x.dtype.bits == wanted.bits, bits)
    return (x.with_dtype(wanted),)
