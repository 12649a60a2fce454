"""In which numbers a graph is evaluated: as its types say, or floats all in f64.

In registers f16 is float16, and bf16 and the 8-bit floats are float32 that holds such a value, as
with the interpreter of kernels; where floats are wide, all of them are float64.
"""

from __future__ import annotations

import enum

import numpy as np

from ...dtypes import DType, f64
from ...interp.values import decode, encode, settle
from ...ops.meaning import convert

Array = np.ndarray


class Precision(enum.Enum):
    """DECLARED rounds after every op as its type says; WIDE computes and keeps floats in f64, of
    constants the values that their types hold."""

    DECLARED = "declared"
    WIDE = "wide"

    def type(self, dtype: DType) -> DType:
        """The type that values of a dtype are computed in."""
        return f64 if self is Precision.WIDE and dtype.is_float else dtype

    def settled(self, value: Array, dtype: DType) -> Array:
        """The result of an op, rounded."""
        return settle(value, self.type(dtype))

    def rounded(self, value: Array, dtype: DType) -> Array:
        """A sum as its result's type."""
        return convert(value, out=self.type(dtype))

    def load(self, stored: Array, dtype: DType) -> Array:
        """From memory."""
        return self.rounded(decode(stored, dtype), dtype) if dtype.is_float else stored

    def store(self, value: Array, dtype: DType) -> Array:
        """To memory, as an array of its own; of wide floats float64 is kept."""
        wide = self is Precision.WIDE and dtype.is_float
        stored = value if wide else encode(value, dtype).reshape(value.shape)
        return np.array(stored)
