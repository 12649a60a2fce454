"""The type of a tensor: its element type and its shape, which is known before anything runs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from ..dtypes import DTYPES, DType
from .places import Loc

MOST_BYTES = 1 << 62  # of a tensor: offsets stay within an i64
MOST_RANK = 16
_FORM = re.compile(r"([a-z]\w*)\[((?:[0-9]{1,19}(?:,[0-9]{1,19})*)?)\]", re.ASCII)


class GraphTypeError(TypeError):
    """What an op, a shape or an attribute may not be: what is expected, what was given. loc: the
    line of the author's source, where it is known."""

    def __init__(self, what: str, loc: Loc | None = None) -> None:
        super().__init__(f"{loc}: {what}" if loc else what)
        self.what, self.loc = what, loc


def shown(value: object) -> str:
    """A value for a message, not all of what is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = f"a large {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class TensorType:
    """`f32[4,64]`; `i32[]` is a scalar. Raises GraphTypeError for a shape that no tensor has."""

    dtype: DType
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.shape) > MOST_RANK:
            raise GraphTypeError(f"{len(self.shape)} dimensions, of at most {MOST_RANK}")
        for size in self.shape:
            if type(size) is not int or size < 0:
                raise GraphTypeError(f"a shape consists of integers from 0 on, not {shown(size)}")
        # Without the zeros, as what such a tensor is made from may be large all the same.
        if math.prod(size or 1 for size in self.shape) * self.dtype.bytes > MOST_BYTES:
            sizes = shown(self.shape)
            raise GraphTypeError(
                f"{self.dtype} of {sizes} has more than {MOST_BYTES} bytes, or would"
            )

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
        raise GraphTypeError(f"{shown(text)} is no tensor type: one looks like f32[4,64] or i32[]")
    sizes = tuple(int(size) for size in found[2].split(",")) if found[2] else ()
    return TensorType(find_dtype(found[1]), sizes)


def whole(value: object, what: str) -> int:
    """An integer, also one of numpy's, as Python's. Raises GraphTypeError."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise GraphTypeError(f"{what} is an integer, not {shown(value)}")
    return int(value)


def shape_of(sizes: object) -> tuple[int, ...]:
    """A shape from integers, one of them or several. Raises GraphTypeError."""
    several = sizes if isinstance(sizes, (tuple, list)) else (sizes,)
    return tuple(whole(size, "a size") for size in several)
