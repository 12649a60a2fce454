"""Where each element of a matrix instruction lies: shapes by mnemonic, lanes and items by index.

MFMA follows the formulas of AMD's "Instinct MI300 instruction set architecture" (matrix core
section) and of AMD's matrix instruction calculator: a lane holds K_L consecutive k of one row of A
(column of B), and D comes in groups of four rows (of one for f64). WMMA of gfx11 wants A and B in
both half waves and spreads rows of D over them alternately; gfx12 splits k between the half waves
and gives each eight consecutive rows of D.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np

BITS = {"f64": 64, "f32": 32, "xf32": 32, "i32": 32, "f16": 16, "bf16": 16, "bf16_1k": 16}
BITS |= {"i8": 8, "iu8": 8, "fp8": 8, "bf8": 8, "iu4": 4}

# Elements of A in a lane where a shape leaves lanes free: the instruction then does several blocks.
_PACK = {"f64": 1, "f32": 1, "f16": 4, "bf16": 2, "bf16_1k": 4, "i8": 4}

_NAME = re.compile(
    r"v_(?P<family>mfma|wmma)_(?P<d>f64|f32|f16|bf16|i32)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
    r"(?:_(?P<blocks>\d+)b)?_?(?P<a>xf32|f64|f32|f16|bf16_1k|bf16|iu8|iu4|i8|fp8|bf8|f8f6f4)"
    r"(?:_(?P<b>fp8|bf8))?"
)


@dataclass(frozen=True)
class Shape:
    """D[m, n] = A[m, k] B[k, n] + C[m, n], `blocks` times. Types as AMD spells them."""

    family: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    d: str


@dataclass(frozen=True)
class Place:
    """Lane and item (position among a lane's elements) of each element, int64 arrays."""

    lane: np.ndarray
    item: np.ndarray


def parse(name: str) -> Shape | None:
    """The shape that a mnemonic names; None where it is no dense matrix instruction."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    m, n, k = int(found["m"]), int(found["n"]), int(found["k"])
    blocks = int(found["blocks"] or 1)
    if found["family"] == "mfma" and not found["blocks"] and found["a"] in _PACK:
        blocks = max(1, _PACK[found["a"]] * 64 // (m * k))
    a = "fp8" if found["a"] == "f8f6f4" else found["a"]
    return Shape(found["family"], m, n, k, blocks, a, found["b"] or a, found["d"])


@functools.cache
def mfma_input(shape: Shape) -> Place:
    """[blocks, m, k] places of A; B is the same with n for m (m == n in every instruction)."""
    b, i, k = np.ix_(range(shape.blocks), range(shape.m), range(shape.k))
    per_lane = shape.k * shape.m * shape.blocks // 64
    lane = i + shape.m * (b + shape.blocks * (k // per_lane))
    item = np.broadcast_to(k % per_lane, lane.shape)
    return Place(lane, item)


@functools.cache
def mfma_output(shape: Shape) -> Place:
    """[blocks, m, n] places of C and D."""
    b, i, j = np.ix_(range(shape.blocks), range(shape.m), range(shape.n))
    rows = 1 if shape.d == "f64" else 4  # consecutive rows in a lane
    blocks_at_once = -(-64 // (shape.n * shape.m // rows))
    groups = (64 // blocks_at_once) // shape.n  # groups of rows side by side in the lanes
    turns = shape.m // (rows * groups)
    item = i % rows + rows * (i // (rows * groups) + turns * (b // blocks_at_once))
    lane = j + shape.n * (b % blocks_at_once + blocks_at_once * ((i // rows) % groups))
    return Place(lane, np.broadcast_to(item, lane.shape))


def wmma_input(shape: Shape, gfx12: bool) -> Place:
    """[1, 16, k] places of A (of B with columns for rows) in 32 lanes."""
    b, i, k = np.ix_(range(1), range(16), range(shape.k))
    if not gfx12:
        return Place(*np.broadcast_arrays(b + i, k))
    half = shape.k // 2
    return Place(b + i + 16 * (k // half), np.broadcast_to(k % half, (1, 16, shape.k)))


def wmma_output(gfx12: bool) -> Place:
    """[1, 16, 16] places of C and D in 32 lanes."""
    b, i, j = np.ix_(range(1), range(16), range(16))
    if gfx12:
        return Place(*np.broadcast_arrays(b + j + 16 * (i // 8), i % 8))
    return Place(*np.broadcast_arrays(b + j + 16 * (i % 2), i // 2))


def broadcast_blocks(blocks: int, cbsz: int, abid: int) -> np.ndarray:
    """int64[blocks]: the block of A that each block reads (CBSZ: 2^n share block ABID of them)."""
    b = np.arange(blocks)
    return (b >> cbsz << cbsz) + (abid if cbsz else 0)


def grouped_lanes(blgp: int) -> np.ndarray:
    """int64[64]: the lane of B that is read for each lane (the BLGP modifier)."""
    lane = np.arange(64)
    table = {0: lane, 1: lane % 32, 2: lane % 32 + 32, 3: (lane + 16) % 64}
    return table[blgp] if blgp < 4 else lane % 16 + 16 * (blgp - 4)
