"""What the tensors of grouped formats mean, in numpy, and what kernels are given for them.

Sources: AutoGPTQ's and AutoAWQ's checkpoints (`qweight`, `qzeros`, `scales`), both of x @ W with W
of inputs x outputs; here a matrix has outputs as rows. GPTQ packs eight inputs into a word, lowest
bits first, and stores z - 1; AWQ packs eight outputs, in the order below, and stores z.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..float8 import decode as decode8
from .formats import GROUPED

Parts = Mapping[str, np.ndarray]

# AWQ: nibble i of a word is output AWQ_ORDER[i] of its eight.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def decode(parts: Parts, name: str, group: int = 0) -> np.ndarray:
    """float32[rows, cols] of the tensors of a grouped format, each product rounded once.

    LayoutError where their sizes do not fit together.
    """
    if name in ("gptq", "awq"):
        q, z, s = unpack(parts, name, group)
        group = q.shape[1] // s.shape[1]
        return np.asarray(np.repeat(s, group, axis=1) * (q - np.repeat(z, group, axis=1)))
    if name == "u4":
        return _u4(parts, group)
    weight, scale = parts["weight"], parts["scale"]
    _check(parts, name, weight.shape, group)
    values = decode8(weight, "f8e4m3") if name.startswith("fp8") else weight.astype(np.float32)
    if name == "fp8_block":
        side = group or GROUPED[name].group
        rows, cols = weight.shape
        scale = np.repeat(np.repeat(scale, side, axis=0)[:rows], side, axis=1)[:, :cols]
    else:
        scale = scale[:, None]
    with np.errstate(all="ignore"):
        return np.asarray(values * scale)


def unpack(parts: Parts, name: str, group: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(quants, zeros, scales) of `gptq` or `awq`, float32 integers [rows, cols] and [rows, groups],
    and the scales as float32[rows, groups]."""
    weight, zeros, scales = parts["qweight"], parts["qzeros"], parts["scales"]
    rows = scales.shape[1]
    cols = weight.shape[0] * (8 if name == "gptq" else 1)
    _check(parts, name, (rows, cols), group)
    if name == "gptq":
        q = _nibbles(weight)  # [inputs / 8, outputs, 8]
        q = q.transpose(1, 0, 2).reshape(rows, cols)
        z = _nibbles(zeros).reshape(len(zeros), rows).T + np.float32(1)
    else:
        inverse = np.argsort(AWQ_ORDER)
        q = _nibbles(weight)[..., inverse].reshape(cols, rows).T
        z = _nibbles(zeros)[..., inverse].reshape(len(zeros), rows).T
    return q, z, scales.T.astype(np.float32)


def repack(parts: Parts, name: str, group: int = 0) -> dict[str, np.ndarray]:
    """The load-time transform of `gptq` or `awq` to `u4`.

    A word of quants has eight elements of a row: the first four in the low halves of its bytes,
    the others in the high ones. A word of groups has the scale as f16 in its low half, the zero
    over it.
    """
    q, z, s = unpack(parts, name, group)
    eight = q.astype(np.uint32).reshape(q.shape[0], -1, 8)
    shifts = np.array([0, 8, 16, 24, 4, 12, 20, 28], np.uint32)
    quants = np.bitwise_or.reduce(eight << shifts, axis=-1)
    patterns = s.astype(np.float16).view(np.uint16).astype(np.uint32)
    return {"quants": quants, "groups": patterns | z.astype(np.uint32) << np.uint32(16)}


def _u4(parts: Parts, group: int) -> np.ndarray:
    quants, groups = parts["quants"], parts["groups"]
    rows, cols = quants.shape[0], quants.shape[1] * 8
    _check(parts, "u4", (rows, cols), group)
    group = group or GROUPED["u4"].group
    halves = np.ascontiguousarray(quants).view(np.uint8).reshape(rows, -1, 1, 4)
    q = (halves >> np.array([[0], [4]], np.uint8) & np.uint8(15)).reshape(rows, cols)
    s = (groups & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
    z = (groups >> np.uint32(16)).astype(np.float32)
    s, z = (np.repeat(a, group, axis=1)[:, :cols] for a in (s, z))
    with np.errstate(all="ignore"):
        return np.asarray(s * (q.astype(np.float32) - z))


def _nibbles(words: np.ndarray) -> np.ndarray:
    """float32[..., 8]: the eight halves of bytes of each word, lowest first."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return (words.astype(np.uint32)[..., None] >> shifts & np.uint32(15)).astype(np.float32)


def _check(parts: Parts, name: str, shape: tuple[int, ...], group: int) -> None:
    GROUPED[name].check(shape, {n: a.nbytes for n, a in parts.items()}, group)
