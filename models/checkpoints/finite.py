"""Infinities, and what is no number, among stored values or the scales of packed ones.

Bits are looked at, not values: an exponent of ones is either in every format but E4M3, which has no
infinities. Portions keep what is made on the way small next to the file.
"""

from __future__ import annotations

import numpy as np

from ...ir.dtypes import DType
from ...ir.quantized import BlockFormat

PORTION = 1 << 20

_EXPONENTS = {
    "f8e4m3": 0x7F,
    "f8e5m2": 0x7C,
    "f16": 0x7C00,
    "bf16": 0x7F80,
    "f32": 0x7F800000,
    "f64": 0x7FF << 52,
}
# Fields of blocks that are f16: the scale, and the least value or its scale.
_HALVES = ("d", "m", "dmin")


def first_non_finite(data: np.ndarray, form: DType | BlockFormat) -> str:
    """How many of the values or scales are not finite and where the first one is; "" for none.
    data: as in a StoredTensor."""
    if isinstance(form, DType):
        if not form.is_float:
            return ""
        bits = data.reshape(-1).view(f"u{form.bytes}")
        return _told(bits, _EXPONENTS[form.name], "values", data.shape, 1)
    blocks = data.reshape(-1, form.bytes)
    shape = (*data.shape[:-1], data.shape[-1] // form.bytes)
    for part in form.fields:
        stored = blocks[:, part.offset : part.offset + part.bytes]
        if part.name in _HALVES:
            found = _told(stored, _EXPONENTS["f16"], f"`{part.name}` of blocks", shape, form.block)
        elif part.name == "e":  # E8M0, all ones: no number
            found = _told(stored, 0xFF, "`e` of blocks", shape, form.block)
        else:
            continue
        if found:
            return found
    return ""


def _told(bits: np.ndarray, ones: int, what: str, shape: tuple[int, ...], unit: int) -> str:
    """bits: unsigned[n], or uint8[n, bytes] of a field in n blocks."""
    count, first = 0, -1
    for start in range(0, len(bits), PORTION):
        part = bits[start : start + PORTION]
        if part.ndim == 2:
            part = np.ascontiguousarray(part).view(f"<u{part.shape[1]}")[:, 0]
        mask = part.dtype.type(ones)
        bad = (part & mask) == mask
        here = int(np.count_nonzero(bad))
        if here and first < 0:
            first = start + int(np.argmax(bad))
        count += here
    if not count:
        return ""
    place = [int(i) for i in np.unravel_index(first, shape)] if shape else []
    if place:
        place[-1] *= unit
    return f"{count} of {len(bits)} {what} that are not, the first at {place}"
