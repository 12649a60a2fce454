"""The op table: `ROWS` by name, `infer` for result types."""

from . import amd as amd
from . import nv as nv
from . import rows as rows
from .table import ROWS, Effect, OpRow, OpTypeError, infer, infer_op

__all__ = ["ROWS", "Effect", "OpRow", "OpTypeError", "infer", "infer_op"]
