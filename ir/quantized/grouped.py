"""What the tensors of grouped formats mean, in numpy, and what kernels are given for them.

Sources: AutoGPTQ's and AutoAWQ's checkpoints (`qweight`, `qzeros`, `scales`), both of x @ W with W
of inputs x outputs; here a matrix has outputs as rows. GPTQ packs eight inputs into a word, lowest
bits first, and stores z - 1; AWQ packs eight outputs, in the order below, and stores z.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..float8 import decode as decode8
from .formats import GROUPED, ActOrderError, LayoutError, UnknownFormatError

Parts = Mapping[str, np.ndarray]

_CHECKPOINTS = ("gptq", "awq")

# AWQ: nibble i of a word is output AWQ_ORDER[i] of its eight.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def decode(parts: Parts, name: str, group: int = 0) -> np.ndarray:
    """float32[rows, cols] of the tensors of a grouped format, each product rounded once.

    LayoutError where one is missing or their sizes do not fit together, ActOrderError where the
    groups of columns are out of order, UnknownFormatError for a name of no such format.
    """
    _complete(parts, name, tuple(GROUPED))
    if name in _CHECKPOINTS:
        q, z, s = unpack(parts, name, group)
        s, z = (_per_column(a, q.shape[1], name, group) for a in (s, z))
        return np.asarray(s * (q - z))
    if name == "u4":
        return _u4(parts, group)
    weight, scale = parts["weight"], parts["scale"]
    _plane(parts, name, "weight")
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
    and the scales as float32[rows, groups]. Errors as those of `decode`."""
    _complete(parts, name, _CHECKPOINTS)
    weight, zeros, scales = parts["qweight"], parts["qzeros"], parts["scales"]
    for part in ("qweight", "scales"):
        _plane(parts, name, part)
    rows = scales.shape[1]
    cols = weight.shape[0] * (8 if name == "gptq" else 1)
    _check(parts, name, (rows, cols), group)
    if name == "gptq":
        _check_order(parts, cols, group)
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
    over it. Errors as those of `decode`.
    """
    q, z, s = unpack(parts, name, group)
    eight = q.astype(np.uint32).reshape(q.shape[0], -1, 8)
    shifts = np.array([0, 8, 16, 24, 4, 12, 20, 28], np.uint32)
    quants = np.bitwise_or.reduce(eight << shifts, axis=-1)
    patterns = s.astype(np.float16).view(np.uint16).astype(np.uint32)
    return {"quants": quants, "groups": patterns | z.astype(np.uint32) << np.uint32(16)}


def _u4(parts: Parts, group: int) -> np.ndarray:
    quants, groups = parts["quants"], parts["groups"]
    _plane(parts, "u4", "quants")
    rows, cols = quants.shape[0], quants.shape[1] * 8
    _check(parts, "u4", (rows, cols), group)
    halves = np.ascontiguousarray(quants).view(np.uint8).reshape(rows, -1, 1, 4)
    q = (halves >> np.array([[0], [4]], np.uint8) & np.uint8(15)).reshape(rows, cols)
    s = (groups & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
    z = (groups >> np.uint32(16)).astype(np.float32)
    s, z = (_per_column(a, cols, "u4", group) for a in (s, z))
    with np.errstate(all="ignore"):
        return np.asarray(s * (q.astype(np.float32) - z))


def _per_column(values: np.ndarray, cols: int, name: str, group: int) -> np.ndarray:
    """[rows, cols] of [rows, groups]; the last group may have fewer columns."""
    return np.repeat(values, group or GROUPED[name].group, axis=1)[:, :cols]


def _nibbles(words: np.ndarray) -> np.ndarray:
    """float32[..., 8]: the eight halves of bytes of each word, lowest first."""
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    return (words.astype(np.uint32)[..., None] >> shifts & np.uint32(15)).astype(np.float32)


def _complete(parts: Parts, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise UnknownFormatError(name, known)
    wanted = [part.name for part in GROUPED[name].parts]
    missing = [part for part in wanted if part not in parts]
    if missing:
        got = len(wanted) - len(missing)
        why = f"missing: {', '.join(missing)}"
        raise LayoutError(f"parts of {name}", len(wanted), got, why)


def _plane(parts: Parts, name: str, part: str) -> None:
    """Refuse a tensor, of those that say what matrix it is, that is none itself."""
    if parts[part].ndim != 2:
        raise LayoutError(f"dimensions of {part} of {name}", 2, parts[part].ndim, "rows, columns")


def _check_order(parts: Parts, cols: int, group: int) -> None:
    """Refuse what GPTQ's act-order makes of `g_idx`, the group of each column."""
    if "g_idx" not in parts:
        return
    index = parts["g_idx"].reshape(-1)
    if index.size != cols:
        why = "it has the group of each column"
        raise LayoutError("elements of g_idx of a gptq matrix", cols, index.size, why)
    straight = np.arange(cols) // (group or GROUPED["gptq"].group)
    for column in np.flatnonzero(index != straight)[:1].tolist():
        raise ActOrderError("gptq", column, int(straight[column]), int(index[column]))


def _check(parts: Parts, name: str, shape: tuple[int, ...], group: int) -> None:
    sizes = {n: a.nbytes for n, a in parts.items()}
    GROUPED[name].check(shape, sizes, group, {n: a.shape for n, a in parts.items()})
