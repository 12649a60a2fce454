"""Which elements of a fragment each lane of a subgroup holds.

A lane holds the elements (row + r, column + c) for a list of constant (r, c), where row and column
are multiples of two numbers that the lane has (`Lane`). Everything but a product follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..dtypes import DType, FragmentType

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Lane:
    """A number that a lane has: (lane >> shift) mod `modulo`, times `scale`."""

    shift: int
    modulo: int
    scale: int


ZERO = Lane(0, 1, 0)


@dataclass(frozen=True, slots=True)
class Layout:
    """row, column: of a lane's first element. offsets: of its elements from there, in the order
    in which they are held. packed: this many neighbours in `offsets` share a 32-bit word."""

    row: Lane
    column: Lane
    offsets: Offsets
    packed: int = 1


@lru_cache(512)
def portable(t: FragmentType, size: int) -> Layout:
    """Lanes over columns: up to 16 lanes side by side, and groups of rows where there are more.

    A lane holds whole columns of b, so that a product needs only a broadcast of each element of a.
    """
    wide = min(size, 16)
    groups = max(size // 16, 1)
    deep = 16 // groups
    row = Lane(wide.bit_length() - 1, groups, deep) if groups > 1 else ZERO
    if t.role == "row":
        return Layout(row, ZERO, tuple((i, 0) for i in range(deep)))
    if t.role == "b":
        grid = tuple((k, n) for k in range(t.rows) for n in range(0, 16, wide))
        return Layout(ZERO, Lane(0, wide, 1), grid)
    width = min(wide, t.columns)
    grid = tuple((i, n) for i in range(deep) for n in range(0, t.columns, width))
    return Layout(row, Lane(0, width, 1), grid)


def _high(scale: int) -> Lane:
    """Which of eight groups of four lanes."""
    return Lane(2, 8, scale)


def _low(scale: int) -> Lane:
    """Which lane of its four."""
    return Lane(0, 4, scale)


def _pairs(rows: Sequence[int], columns: Sequence[int], count: int) -> Offsets:
    """Runs of `count` neighbours along the columns, rows first."""
    return tuple((r, c + n) for c in columns for r in rows for n in range(count))


@lru_cache(512)
def mma_sync(t: FragmentType) -> Layout:
    """The registers of PTX's mma.sync m16n8kK, twice along the columns of b and of the sum."""
    per = max(1, 4 // t.element.bytes) if t.role in ("a", "b") else 1
    if t.role == "row":
        return Layout(_high(1), ZERO, ((0, 0), (8, 0)))
    if t.role == "acc":
        return Layout(_high(1), _low(2), _pairs((0, 8), (0, 8), 2))
    half = 4 * per  # a word of each of four lanes
    if t.role == "a":
        return Layout(_high(1), _low(per), _pairs((0, 8), (0, half), per), per)
    runs = tuple((k + n, h) for h in (0, 8) for k in (0, half) for n in range(per))
    return Layout(_low(per), _high(1), runs, per)


def run_length(places: Sequence[tuple[int, int]], scale: int, element: DType, widest: int) -> int:
    """How many elements in a row lie side by side, in every run of that length.

    places: of elements, as (row, place in it) from where the lane begins, a multiple of `scale`.
    widest: the longest run that is wanted.
    """
    for width in (8, 4, 2):
        fits = width <= widest and scale % width == 0 and width * element.bytes <= 16
        runs = [places[n : n + width] for n in range(0, len(places), width)]
        if fits and all(
            run[0][1] % width == 0 and run == [(run[0][0], run[0][1] + n) for n in range(width)]
            for run in runs
        ):
            return width
    return 1
