"""The calling convention: what emitters and runtime must agree on, computed in one place.

One order everywhere: buffers (slots are buffers), then by-value scalars, then one element count
per buffer, then the fault base, then the true grid.

SPIR-V and WGSL: binding i of set 0 is buffer i; binding n is a uniform block of 32-bit words
(padded to 16 bytes) as `words` lays them out; binding n+1 is the fault bitmap, there only where
the kernel has fault sites. CPU: an array of 64-bit words as `cpu_words` lays them out. PTX, cubin
and HSACO: kernel parameters at their natural sizes and alignments as `gpu_bytes` packs them.

Grid expressions are integers or tuples: ("count", buffer), ("scalar", name) and (op, a, b) with op
one of add, sub, mul, floordiv, ceil_div, min, max. Bounds of a launch whose grid is known may also
hold ("grid", dimension).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .dtypes import DType
from .interface import Attr, Param, const_bits

GRID_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}


class WordLayout(NamedTuple):
    """Positions, in 32-bit words, within the uniform parameter block."""

    scalars: tuple[int, ...]  # first word of each scalar
    counts: tuple[int, ...]  # first word of each count
    fault_base: int
    grid: int  # x, y, z follow each other
    size: int  # padded to a multiple of 4 words


def memory_params(params: Sequence[Param]) -> list[Param]:
    """The parameters that are buffers (slots among them), in binding order."""
    return [p for p in params if p.is_memory]


def scalar_params(params: Sequence[Param]) -> list[Param]:
    """The parameters passed by value, in order."""
    return [p for p in params if not p.is_memory]


def word_layout(params: Sequence[Param], index: DType) -> WordLayout:
    """Where everything lies in the uniform block of a kernel with these parameters."""
    at = 0
    scalars, counts = [], []
    for param in scalar_params(params):
        scalars.append(at)
        at += 2 if param.dtype.bits == 64 else 1
    for _ in memory_params(params):
        counts.append(at)
        at += 2 if index.bits == 64 else 1
    return WordLayout(tuple(scalars), tuple(counts), at, at + 1, (at + 4 + 3) // 4 * 4)


def scalar_bits(value: float | int | bool, dtype: DType) -> int:
    """The bit pattern of a by-value scalar (bf16 is rounded to nearest even)."""
    return const_bits(value, dtype)


def words(
    params: Sequence[Param],
    index: DType,
    scalars: Sequence[int],
    counts: Sequence[int],
    fault_base: int,
    grid: tuple[int, int, int],
) -> np.ndarray:
    """The uniform block, uint32[size]. `scalars` are bit patterns from `scalar_bits`."""
    layout = word_layout(params, index)
    block = np.zeros(layout.size, np.uint32)
    for at, param, bits in zip(layout.scalars, scalar_params(params), scalars, strict=True):
        block[at] = bits & 0xFFFFFFFF
        if param.dtype.bits == 64:
            block[at + 1] = bits >> 32
    for at, count in zip(layout.counts, counts, strict=True):
        block[at] = count & 0xFFFFFFFF
        if index.bits == 64:
            block[at + 1] = count >> 32
    block[layout.fault_base] = fault_base
    block[layout.grid : layout.grid + 3] = grid
    return block


def cpu_words(
    addresses: Sequence[int],
    scalars: Sequence[int],
    counts: Sequence[int],
    fault_address: int,
    fault_base: int,
    grid: tuple[int, int, int],
) -> bytes:
    """The argument array of a CPU kernel: one little-endian 64-bit word each, in this order."""
    values = [*addresses, *scalars, *counts, fault_address, fault_base, *grid]
    return struct.pack(f"<{len(values)}Q", *values)


class GpuLayout(NamedTuple):
    """Byte offsets within the packed parameters of a GPU kernel.

    faults (a 64-bit pointer to the bitmap's words) and fault_base are there only where the kernel
    has fault sites; None otherwise. barrier: a 64-bit pointer to the word that a kernel with
    grid_barrier counts in. maps: 128 bytes each, at a multiple of 64. size ends with the last
    parameter, unpadded.
    """

    pointers: tuple[int, ...]  # 64 bits for each buffer
    scalars: tuple[int, ...]  # each at its own size
    counts: tuple[int, ...]  # 64 bits for each buffer
    faults: int | None
    fault_base: int | None
    grid: int  # x, y, z as 32-bit words follow each other
    size: int
    barrier: int | None = None
    maps: tuple[int, ...] = ()


MAP_BYTES, MAP_ALIGN = 128, 64


@lru_cache(maxsize=4096)
def _gpu_layout(params: tuple[Param, ...], faults: bool, barrier: bool, maps: int) -> GpuLayout:
    at = 0

    def place(size: int) -> int:
        nonlocal at
        start = (at + size - 1) // size * size
        at = start + size
        return start

    pointers = tuple(place(8) for _ in memory_params(params))
    scalars = tuple(place(p.dtype.bytes) for p in scalar_params(params))
    counts = tuple(place(8) for _ in memory_params(params))
    pointer, base = (place(8), place(4)) if faults else (None, None)
    counter = place(8) if barrier else None
    grid = [place(4) for _ in range(3)]
    views = []
    for _ in range(maps):
        views.append((at + MAP_ALIGN - 1) // MAP_ALIGN * MAP_ALIGN)
        at = views[-1] + MAP_BYTES
    return GpuLayout(pointers, scalars, counts, pointer, base, grid[0], at, counter, tuple(views))


def gpu_layout(
    params: Sequence[Param], faults: bool, barrier: bool = False, maps: int = 0
) -> GpuLayout:
    """Where the parameters of a PTX, cubin or HSACO kernel lie. faults: it has fault sites;
    barrier: it has barriers of the grid; maps: its tensor maps (`ir.extensions`)."""
    return _gpu_layout(tuple(params), faults, barrier, maps)


def gpu_places(params: Sequence[Param], layout: GpuLayout) -> tuple[tuple[int, int], ...]:
    """Place and size in bytes of each parameter of a PTX, cubin or HSACO kernel, in order."""
    scalars = zip(layout.scalars, scalar_params(params), strict=True)
    wide = [*layout.pointers, *layout.counts, layout.faults, layout.barrier]
    words = [layout.fault_base, *range(layout.grid, layout.grid + 12, 4)]
    found = [
        *((at, 8) for at in wide if at is not None),
        *((at, p.dtype.bytes) for at, p in scalars),
        *((at, 4) for at in words if at is not None),
        *((at, MAP_BYTES) for at in layout.maps),
    ]
    return tuple(sorted(found))


def gpu_bytes(
    params: Sequence[Param],
    faults: bool,
    pointers: Sequence[int],
    scalars: Sequence[int],
    counts: Sequence[int],
    fault_address: int,
    fault_base: int,
    grid: tuple[int, int, int],
    barrier_address: int | None = None,
    maps: Sequence[bytes] = (),
) -> bytes:
    """The packed parameters of one launch; gaps are zero. `scalars` are bit patterns from
    `scalar_bits`; without fault sites, fault_address and fault_base are ignored."""
    layout = gpu_layout(params, faults, barrier_address is not None, len(maps))
    block = bytearray(layout.size)
    for at, address in zip(layout.pointers, pointers, strict=True):
        struct.pack_into("<Q", block, at, address)
    for at, param, bits in zip(layout.scalars, scalar_params(params), scalars, strict=True):
        size = param.dtype.bytes
        block[at : at + size] = bits.to_bytes(size, "little")
    for at, count in zip(layout.counts, counts, strict=True):
        struct.pack_into("<q", block, at, count)
    if layout.faults is not None and layout.fault_base is not None:
        struct.pack_into("<Q", block, layout.faults, fault_address)
        struct.pack_into("<I", block, layout.fault_base, fault_base)
    if layout.barrier is not None:
        struct.pack_into("<Q", block, layout.barrier, barrier_address)
    struct.pack_into("<3I", block, layout.grid, *grid)
    for at, view in zip(layout.maps, maps, strict=True):
        block[at : at + MAP_BYTES] = view
    return bytes(block)


def evaluate(
    expression: Attr,
    counts: Mapping[str, int],
    scalars: Mapping[str, int],
    grid: Sequence[int] | None = None,
) -> int:
    """The value of a grid expression for one launch. ValueError on a malformed expression."""
    if isinstance(expression, int) and not isinstance(expression, bool):
        return expression
    if isinstance(expression, tuple) and len(expression) == 2:
        kind, name = expression
        if kind == "grid" and grid is not None and isinstance(name, int):
            return grid[name]
        source = {"count": counts, "scalar": scalars}.get(str(kind))
        if source is not None and name in source:
            return int(source[str(name)])
    if isinstance(expression, tuple) and len(expression) == 3 and expression[0] in GRID_OPS:
        a, b = (evaluate(e, counts, scalars, grid) for e in expression[1:])
        return int(GRID_OPS[str(expression[0])](a, b))
    raise ValueError(f"not a grid expression: {expression!r}")
