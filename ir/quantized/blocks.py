"""What blocks mean, in numpy: the oracle of the block formats.

Every function takes the fields of blocks, uint8[blocks, bytes of the field] by name, and gives
float32[blocks, elements]. Products and sums are float32, each rounded once, in the order in which
a format's `scale` is written: that is how its reference decoder computes.

Sources: the struct definitions of ggml's ggml-common.h and what its dequantize_row functions do;
for MXFP4, "OCP Microscaling Formats (MX) Specification", version 1.0, section 5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .formats import BLOCKS, BlockFormat

Fields = dict[str, np.ndarray]
Floats = npt.NDArray[np.float32]

NONLINEAR = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# Twice the values of E2M1; a scale of MXFP4 counts as half of what its exponent says.
E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def decode(data: np.ndarray, form: BlockFormat) -> np.ndarray:
    """Blocks as a file has them, uint8[..., bytes of a row], as float32[..., elements].

    LayoutError where the bytes of a row are not whole blocks, TypeError for other elements.
    """
    fields = split(_blocks(data, form), form)
    return _decoded(fields, form).reshape(*data.shape[:-1], -1)


def _blocks(data: np.ndarray, form: BlockFormat) -> np.ndarray:
    """uint8[blocks, bytes] of uint8[..., bytes of a row]."""
    if data.dtype != np.uint8:
        raise TypeError(f"blocks of {form.name} as {data.dtype}; expected uint8: view the bytes")
    data = np.ascontiguousarray(data)
    form.check((data.shape[-1] // form.bytes * form.block,), data.shape[-1])
    return data.reshape(-1, form.bytes)


def split(blocks: np.ndarray, form: BlockFormat) -> Fields:
    """uint8[blocks, bytes] by field."""
    return {f.name: blocks[:, f.offset : f.offset + f.bytes] for f in form.fields}


def planes(data: np.ndarray, form: BlockFormat) -> tuple[np.ndarray, np.ndarray]:
    """The load-time transform of uint8[..., bytes of a row] to the layout "planes": (the blocks
    without the field that stands apart, those fields), both uint8 and padded with zeros to whole
    u32 words.

    LookupError for a format without planes, LayoutError where the bytes of a row are not whole
    blocks.
    """
    form.places("planes")
    fields = split(_blocks(data, form), form)
    alone = fields.pop(form.apart)
    return _padded(np.concatenate(list(fields.values()), axis=1)), _padded(alone)


def _padded(plane: np.ndarray) -> np.ndarray:
    flat = plane.reshape(-1)
    return np.pad(flat, (0, -flat.size % 4))


def _decoded(fields: Fields, form: BlockFormat) -> Floats:
    with np.errstate(all="ignore"):  # infinite scales, and scales that are no numbers
        return _RULES[form.name](fields)


def _half(field: np.ndarray) -> Floats:
    """float32[blocks, 1] of a little-endian f16."""
    return np.ascontiguousarray(field).view("<f2").astype(np.float32)


def _bits(field: np.ndarray, width: int) -> np.ndarray:
    """int[blocks, pieces]: a field cut into pieces of `width` bits, from the lowest bit on."""
    single = np.unpackbits(field, axis=1, bitorder="little")
    pieces = single.reshape(len(field), -1, width).astype(np.int64)
    found: np.ndarray = pieces @ (1 << np.arange(width))
    return found


def _striped(field: np.ndarray, width: int, run: int) -> np.ndarray:
    """int[blocks, elements] of pieces of `width` bits where each run of `run` bytes holds first
    the lowest pieces of all its bytes, then the next ones."""
    pieces = _bits(field, width).reshape(len(field), -1, run, 8 // width)
    return pieces.swapaxes(2, 3).reshape(len(field), -1)


def _f32(values: np.ndarray) -> Floats:
    return values.astype(np.float32)


def _per(values: Floats, count: int) -> Floats:
    """Each value for `count` elements."""
    return np.repeat(values, count, axis=1)


def _q4_0(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(_striped(f["qs"], 4, 16) - 8)


def _q4_1(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(_striped(f["qs"], 4, 16)) + _half(f["m"])


def _fifth(f: Fields) -> np.ndarray:
    return np.asarray(_striped(f["qs"], 4, 16) + 16 * _bits(f["qh"], 1))


def _q5_0(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(_fifth(f) - 16)


def _q5_1(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(_fifth(f)) + _half(f["m"])


def _q8_0(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(np.ascontiguousarray(f["qs"]).view(np.int8))


def _q2_k(f: Fields) -> Floats:
    low, high = np.split(_bits(f["scales"], 4).reshape(-1, 16, 2), 2, axis=2)
    scale = _half(f["d"]) * _f32(low[..., 0])
    least = _half(f["dmin"]) * _f32(high[..., 0])
    return _per(scale, 16) * _f32(_striped(f["qs"], 2, 32)) - _per(least, 16)


def _q3_k(f: Fields) -> Floats:
    scales = _striped(f["scales"][:, :8], 4, 8) + 16 * _striped(f["scales"][:, 8:], 2, 4)
    scale = _half(f["d"]) * _f32(scales - 32)
    q = _striped(f["qs"], 2, 32) + 4 * _striped(f["hmask"], 1, 32)
    return _per(scale, 16) * _f32(q - 4)


def _scales_and_mins(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int[blocks, 8] each, of 6 bits: four plainly, of four the upper 2 bits over those."""
    low = _bits(scales[:, :8], 2).reshape(-1, 2, 4, 4)  # pairs of bits, lowest first
    plain = low[..., 0] + 4 * low[..., 1] + 16 * low[..., 2]
    rest = _bits(scales[:, 8:], 4).reshape(-1, 4, 2).swapaxes(1, 2)
    upper = rest + 16 * low[..., 3]
    both = np.concatenate([plain, upper], axis=2)
    return both[:, 0], both[:, 1]


def _of_eight(f: Fields, q: np.ndarray) -> Floats:
    scales, mins = _scales_and_mins(f["scales"])
    scale, least = _half(f["d"]) * _f32(scales), _half(f["dmin"]) * _f32(mins)
    return _per(scale, 32) * _f32(q) - _per(least, 32)


def _q4_k(f: Fields) -> Floats:
    return _of_eight(f, _striped(f["qs"], 4, 32))


def _q5_k(f: Fields) -> Floats:
    return _of_eight(f, _striped(f["qs"], 4, 32) + 16 * _striped(f["qh"], 1, 32))


def _q6_k(f: Fields) -> Floats:
    scale = _half(f["d"]) * _f32(np.ascontiguousarray(f["scales"]).view(np.int8))
    q = _striped(f["ql"], 4, 64) + 16 * _striped(f["qh"], 2, 32)
    return _per(scale, 16) * _f32(q - 32)


def _iq4_nl(f: Fields) -> Floats:
    return _half(f["d"]) * _f32(np.array(NONLINEAR)[_striped(f["qs"], 4, 16)])


def _iq4_xs(f: Fields) -> Floats:
    scales = _bits(f["scales_l"], 4) + 16 * _bits(f["scales_h"], 2)
    scale = _half(f["d"]) * _f32(scales - 32)
    return _per(scale, 32) * _f32(np.array(NONLINEAR)[_striped(f["qs"], 4, 16)])


def _mxfp4(f: Fields) -> Floats:
    scale = np.ldexp(np.float32(1), f["e"].astype(np.int32) - 128)
    return scale * _f32(np.array(E2M1)[_striped(f["qs"], 4, 16)])


_RULES: dict[str, Callable[[Fields], Floats]] = {
    "q4_0": _q4_0, "q4_1": _q4_1, "q5_0": _q5_0, "q5_1": _q5_1, "q8_0": _q8_0,
    "q2_k": _q2_k, "q3_k": _q3_k, "q4_k": _q4_k, "q5_k": _q5_k, "q6_k": _q6_k,
    "iq4_nl": _iq4_nl, "iq4_xs": _iq4_xs, "mxfp4": _mxfp4,
}  # fmt: skip
assert _RULES.keys() == BLOCKS.keys()
