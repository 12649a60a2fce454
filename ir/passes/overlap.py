"""Workgroup arrays in one block, where arrays that are never in use at once share their bytes.

An array is in use from the first op of the body that touches it to the last. Two arrays may share
bytes where a barrier of the body itself stands between their uses, so that all invocations are done
with one before any begins with the other. What happens inside a loop or branch counts as one step.
An asynchronous copy is under way until the last wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core import Kernel, Op, walk
from ..dtypes import MemType, Space, Type, u64
from ..ops.nv import ATOM_BYTES, MBARRIER_OPS
from .effects import op_names

ALIGN = 16  # of every array: what the widest access needs
_WORTH = 1 << 10  # bytes below which sharing changes nothing


@dataclass(frozen=True, slots=True)
class Array:
    """A workgroup array: its `alloc`, its size and its place in the block, in bytes."""

    op: Op
    bytes: int
    at: int
    align: int = ALIGN


@dataclass(frozen=True, slots=True)
class Block:
    """The arrays in the order of their declaration. shared: some share bytes."""

    arrays: tuple[Array, ...]
    bytes: int
    shared: bool


def place_arrays(kernel: Kernel) -> Block:
    """Where each workgroup array lies: one behind the other, unless sharing saves a kilobyte."""
    ops = [op for op in kernel.body.ops if op.name == "alloc" and _shared(op)]
    sizes = [_bytes(op) for op in ops]
    tiles = _tiles(kernel)
    aligns = [ATOM_BYTES if op.results[0].id in tiles else ALIGN for op in ops]
    plain, end = [], 0
    for size, align in zip(sizes, aligns, strict=True):
        plain.append(-(-end // align) * align)
        end = plain[-1] + size
    total = end
    # What is under way between mbarriers is not seen here.
    if len(ops) > 1 and not MBARRIER_OPS.intersection(op_names(kernel)):
        phases = _phases(kernel, ops)
        packed = _packed(sizes, phases)
        tight = max(at + size for at, size in zip(packed, sizes, strict=True))
        if total - tight >= _WORTH:
            return Block(tuple(map(Array, ops, sizes, packed)), tight, True)
    return Block(tuple(map(Array, ops, sizes, plain, aligns)), total, False)


def _tiles(kernel: Kernel) -> frozenset[int]:
    """The arrays that tensor copies and products by warpgroups use."""
    names = ("nv_tensor_load", "nv_tensor_store", "nv_wgmma")
    ops = [op for op in walk(kernel.body) if op.name in names]
    return frozenset(v.id for op in ops for v in op.operands if not _is_mbarriers(v.type))


def _is_mbarriers(t: Type) -> bool:
    return isinstance(t, MemType) and t.element == u64


def _shared(op: Op) -> bool:
    memory = op.results[0].type
    return isinstance(memory, MemType) and memory.space is Space.WORKGROUP


def _bytes(op: Op) -> int:
    memory = op.results[0].type
    assert isinstance(memory, MemType)
    return (memory.count or 0) * memory.element.bytes


def _aligned(n: int) -> int:
    return -(-n // ALIGN) * ALIGN


def _phases(kernel: Kernel, ops: list[Op]) -> list[tuple[int, int]]:
    """The first and last stretch between barriers in which each array is in use."""
    numbers = {op.results[0].id: n for n, op in enumerate(ops)}
    found: list[tuple[int, int]] = [(1, 0)] * len(ops)  # (1, 0): never
    copied: set[int] = set()
    phase = last_wait = 0
    for op in kernel.body.ops:
        if op.name == "barrier":
            phase += 1
        inner = (op, *(o for region in op.regions for o in walk(region)))
        for each in inner:
            for v in each.operands:
                n = numbers.get(v.id)
                if n is not None:
                    low, high = found[n]
                    found[n] = (phase if low > high else low, phase)
                    if each.name == "copy_async":
                        copied.add(n)
            if each.name == "copy_wait":
                last_wait = phase
    for n in copied:
        low, high = found[n]
        found[n] = low, max(high, last_wait)
    return found


def _packed(sizes: list[int], phases: list[tuple[int, int]]) -> list[int]:
    """Each array at the lowest place that no array in use at the same time takes."""
    places: list[int] = []
    for n, size in enumerate(sizes):
        low, high = phases[n]
        others = [
            (places[k], _aligned(places[k] + sizes[k]))
            for k in range(n)
            if low <= phases[k][1] and phases[k][0] <= high
        ]
        at = 0
        for start, end in sorted(others):
            if at + size <= start:
                break
            at = max(at, end)
        places.append(at)
    return places
