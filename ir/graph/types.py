"""The type of a tensor: its element type and its shape, which is known before anything runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..dtypes import DTYPES, DType

MOST_BYTES = 1 << 62  # of a tensor: offsets stay within an i64
_FORM = re.compile(r"([a-z]\w*)\[((?:\d+(?:,\d+)*)?)\]")


class GraphTypeError(TypeError):
    """What an op, a shape or an attribute may not be: what is expected, and what was given."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """`f32[4,64]`; `i32[]` is a scalar. Raises GraphTypeError for a shape that no tensor has."""

    dtype: DType
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for size in self.shape:
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise GraphTypeError(f"a shape consists of integers from 0 on, not {size!r}")
        if self.bytes > MOST_BYTES:
            raise GraphTypeError(f"{self} has {self.bytes} bytes, of at most {MOST_BYTES}")

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """In memory, packed."""
        return self.size * self.dtype.bytes

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same elements in another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape of other elements."""
        return TensorType(dtype, self.shape)


def find_dtype(dtype: DType | str) -> DType:
    """An element type by itself or by name. Raises GraphTypeError."""
    if isinstance(dtype, DType):
        return dtype
    found = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if found is None:
        raise GraphTypeError(f"{dtype!r} is no element type: there are {', '.join(DTYPES)}")
    return found


def parse_tensor_type(text: str) -> TensorType:
    """From the form that `str` gives. Raises GraphTypeError."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise GraphTypeError(f"{text!r} is no tensor type: one looks like f32[4,64] or i32[]")
    sizes = tuple(int(size) for size in found[2].split(",")) if found[2] else ()
    return TensorType(find_dtype(found[1]), sizes)
