"""Inputs and references that the kernels of quantized weights share: matrices in every format.

A decoder is named as its format is, with `_planes` behind it where it reads planes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.quantized import BLOCKS, decode, decode_parts, planes
from .family import DTYPES, Args, Constexprs, encode

_SCALES = {"d", "dmin", "m"}  # f16 in blocks
_QUANTS = {"qs", "qh", "ql", "hmask"}


def format_name(constexprs: Constexprs) -> tuple[str, bool]:
    """(the format of a kernel's constexpr FORMAT, whether it lies in planes)."""
    op = constexprs["FORMAT"]
    name = op.rpartition(":")[2] if isinstance(op, str) else op.name
    return name.removesuffix("_planes"), name.endswith("_planes")


def columns(name: str) -> int:
    """What the columns of a matrix are a multiple of: a block, or a unit of the decoders."""
    return BLOCKS[name].block if name in BLOCKS else 32


def matrix(rng: np.random.Generator, rows: int, cols: int, constexprs: Constexprs) -> Any:
    """Random weights as a kernel's parts: arrays in the dtype that it declares."""
    name, apart = format_name(constexprs)
    if name not in BLOCKS:
        return _grouped(rng, rows, cols, name, constexprs["GROUP"])
    form = BLOCKS[name]
    blocks = rng.integers(0, 256, (rows, cols // form.block, form.bytes), np.uint8)
    for f in form.fields:
        if f.name in _SCALES:
            scale = rng.standard_normal(blocks.shape[:2]).astype("<f2")[..., None]
            blocks[..., f.offset : f.offset + 2] = scale.view(np.uint8)
        if f.name == "e":
            blocks[..., f.offset] = rng.integers(120, 132, blocks.shape[:2])
    data = blocks.reshape(rows, -1)
    if apart:
        return tuple(p.view(np.uint32) for p in planes(data, form))
    return (data.reshape(-1).view(form.word.storage),)


def weights(parts: Any, rows: int, cols: int, constexprs: Constexprs) -> np.ndarray:
    """float32[rows, cols] of what `matrix` gives."""
    name, apart = format_name(constexprs)
    if name not in BLOCKS:
        return _meaning(parts, rows, cols, name, constexprs["GROUP"])
    form = BLOCKS[name]
    if not apart:
        return decode(np.asarray(parts[0]).view(np.uint8).reshape(rows, -1), form)
    count = rows * cols // form.block
    blocks = np.empty((count, form.bytes), np.uint8)
    for f in form.fields:
        place = form.places("planes")[f.name]
        part = np.asarray(parts[place.part]).view(np.uint8)[: count * place.stride]
        held = part.reshape(count, place.stride)[:, place.offset : place.offset + f.bytes]
        blocks[:, f.offset : f.offset + f.bytes] = held
    return decode(blocks.reshape(rows, -1), form)


def _grouped(rng: np.random.Generator, rows: int, cols: int, name: str, group: int) -> Any:
    if name == "u4":
        quants = rng.integers(0, 2**32, (rows, cols // 8), np.uint32)
        scale = rng.standard_normal((rows, -(-cols // group))).astype(np.float16)
        zero = rng.integers(0, 17, scale.shape, np.uint32)
        return quants, scale.view(np.uint16).astype(np.uint32) | zero << np.uint32(16)
    if name == "int8":
        weight = rng.integers(0, 256, (rows, cols), np.uint8)
    else:
        weight = encode(rng.standard_normal((rows, cols)) * 8, DTYPES["f8e4m3"])
    shape = (-(-rows // group), -(-cols // group)) if name == "fp8_block" else (rows,)
    scale = rng.uniform(0.001, 0.1, shape).astype(np.float32)
    return weight.view(np.uint32), scale.view(np.uint32)


def _meaning(parts: Any, rows: int, cols: int, name: str, group: int) -> np.ndarray:
    first, second = (np.asarray(p) for p in parts)
    if name == "u4":
        named = {"quants": first.reshape(rows, -1), "groups": second.reshape(rows, -1)}
        return decode_parts(named, name, group)
    stored = np.int8 if name == "int8" else np.uint8
    weight, scale = first.view(stored).reshape(rows, cols), second.view(np.float32)
    if name == "fp8_block":
        scale = scale.reshape(-(-rows // group), -1)
    return decode_parts({"weight": weight, "scale": scale}, name, group)


def arguments(parts: Any) -> Args:
    """Parts as the arguments of `w: Buffers[...]`."""
    return {f"w_{n}": part for n, part in enumerate(parts)}


def offsets_of(parts: Any, rows: int, cols: int, constexprs: Constexprs) -> np.ndarray:
    """What `weights` gives where every quant of a format with offsets is 0; else zeros."""
    name, _ = format_name(constexprs)
    named = {f.name for f in BLOCKS[name].fields} if name in BLOCKS else set()
    if name == "u4" or {"m", "dmin"} & named:
        return _filled(parts, rows, cols, constexprs, 0)
    return np.zeros((rows, cols))


def extremes(
    parts: Any, rows: int, cols: int, constexprs: Constexprs
) -> tuple[np.ndarray, np.ndarray, int]:
    """What `weights` gives where every quant is the least, and the greatest one; bits of a quant.

    For formats whose quants are integers.
    """
    name, _ = format_name(constexprs)
    bits = 8 if name == "int8" else int(name[1])
    least, greatest = (0x80, 0x7F) if bits == 8 else (0, 0xFF)
    low, high = (_filled(parts, rows, cols, constexprs, b) for b in (least, greatest))
    return low, high, bits


def _filled(parts: Any, rows: int, cols: int, constexprs: Constexprs, byte: int) -> np.ndarray:
    """What `weights` gives where every byte of quants is this one."""
    name, apart = format_name(constexprs)
    arrays = [np.array(p) for p in parts]
    if name not in BLOCKS:
        arrays[0].view(np.uint8)[:] = byte
        return weights(arrays, rows, cols, constexprs)
    count = rows * cols // BLOCKS[name].block
    for f in BLOCKS[name].fields:
        if f.name in _QUANTS:
            place = BLOCKS[name].places("planes" if apart else "blocks")[f.name]
            part = arrays[place.part].view(np.uint8).reshape(-1)[: count * place.stride]
            held = part.reshape(count, place.stride)
            held[:, place.offset : place.offset + f.bytes] = byte
    return weights(arrays, rows, cols, constexprs)
