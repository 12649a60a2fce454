"""Tensors on a device, and the element types of ONNX by the names that kernels have for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
from onnx import TensorProto

from ..runtime.memory import Buffer
from .refusal import Missing

# By the number of TensorProto.DataType. The others (4-bit and 2-bit types, FNUZ, complex, strings)
# have no name among kernels.
NAMES: dict[int, str] = {
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.FLOAT16: "f16",
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "f8e4m3",
    TensorProto.FLOAT8E5M2: "f8e5m2",
    TensorProto.INT8: "i8",
    TensorProto.INT16: "i16",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
    TensorProto.UINT8: "u8",
    TensorProto.UINT16: "u16",
    TensorProto.UINT32: "u32",
    TensorProto.UINT64: "u64",
    TensorProto.BOOL: "bool",
}
ARRAYS: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
OF_ARRAYS = {array: name for name, array in ARRAYS.items()}
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")
# As which integer the elements of each width move, and of how many bytes.
WORDS = {1: "u8", 2: "u16", 4: "u32"}


def name_of(array: np.dtype) -> str:
    """The kernels' name of a type of numpy or ml_dtypes. Missing: they have none."""
    if array not in OF_ARRAYS:
        raise Missing(f"element type {array}")
    return OF_ARRAYS[array]


def name_of_type(number: int) -> str:
    """The kernels' name of a TensorProto.DataType. Missing: they have none."""
    if number not in NAMES:
        known = number in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number).lower() if known else str(number)
        raise Missing(f"element type {name}")
    return NAMES[number]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A contiguous, row-major array on the device.

    value: the same on the host, of what came from there (inputs, constants, shapes): operands that
    say where and how much, not what is computed, are read from it. fixed: it follows from the model
    and from shapes alone.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    dtype: str
    value: np.ndarray | None = field(default=None, compare=False, repr=False)
    fixed: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return ARRAYS[self.dtype].itemsize

    def reshaped(self, *shape: int) -> Tensor:
        """The same elements, in the same memory. ValueError: a shape of more or fewer."""
        if math.prod(shape) != self.size:
            raise ValueError(f"{self.shape} has not the elements of {tuple(shape)}")
        value = None if self.value is None else self.value.reshape(shape)
        return replace(self, shape=tuple(shape), value=value)

    def seen_as(self, dtype: str) -> Tensor:
        """The same bits, in the same memory, as elements of another type of the same width; of a
        narrower one, with a last axis that counts the parts."""
        parts = self.itemsize // ARRAYS[dtype].itemsize
        shape = self.shape if parts == 1 else (*self.shape, parts)
        flat = self.buffer.view(0, self.size * parts, dtype)
        return Tensor(flat, shape, dtype)
