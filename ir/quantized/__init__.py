"""Quantized weights: what formats there are, what their bytes mean, which tensors fit them."""

from __future__ import annotations

from .blocks import decode, planes
from .formats import (
    BLOCKS,
    FORMATS,
    GROUPED,
    ActOrderError,
    BlockFormat,
    Format,
    GroupedFormat,
    LayoutError,
    UnknownFormatError,
    find,
)
from .grouped import decode as decode_parts
from .grouped import repack

__all__ = [
    "BLOCKS",
    "FORMATS",
    "GROUPED",
    "ActOrderError",
    "BlockFormat",
    "Format",
    "GroupedFormat",
    "LayoutError",
    "UnknownFormatError",
    "decode",
    "decode_parts",
    "find",
    "planes",
    "repack",
]
