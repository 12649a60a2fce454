"""Tensor maps as the model reads them: `runtime/tensor_map.h`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill.ir import abi
from gristmill.ir.core import Kernel, Param
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.extensions import tensor_maps

MAGIC = 0x70616D2D65706174
_FORMAT = "<2Q4Q5I5I4H4Q"


def maps_of(
    kernel: Kernel, pairs: Sequence[tuple[Param, Any]], copies: Sequence[np.ndarray]
) -> list[bytes]:
    """The encoded maps of a launch; copies: the memory of the buffers, in order."""
    names = [p.name for p, _ in pairs if p.is_memory]
    counts = {name: c.size for name, c in zip(names, copies, strict=True)}
    scalars = {p.name: int(a) for p, a in pairs if not p.is_memory and p.dtype.is_int}
    found = []
    for view in tensor_maps(kernel):
        size = DTYPES[view.element].bytes
        shape = [abi.evaluate(e, counts, scalars) for e in reversed(view.shape)]
        strides = [abi.evaluate(e, counts, scalars) * size for e in reversed(view.strides)]
        box = list(reversed(view.box))
        address = copies[names.index(view.buffer)].ctypes.data
        found.append(
            struct.pack(
                _FORMAT,
                MAGIC,
                address,
                *_padded(strides, 4),
                *_padded(shape, 5),
                *_padded(box, 5),
                len(shape),
                size,
                view.swizzle,
                *[0] * 5,
            )
        )
    return found


def _padded(numbers: list[int], count: int) -> list[int]:
    return [*numbers, *[0] * (count - len(numbers))]
