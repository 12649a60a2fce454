"""Workgroup arrays in one block, where arrays that are never in use at once share their bytes.

An array is in use from the first op of the body that touches it to the last. Two arrays may share
bytes where a barrier of the body itself stands between their uses, so that all invocations are done
with one before any begins with the other. What happens inside a loop or branch counts as one step;
but two arrays that one loop alone uses may share them within its turns, as `_apart_in` says. An
asynchronous copy is under way until the last wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core import Kernel, Op, Region, ops_named, walk
from ..dtypes import MemType, Space, Type, u64
from ..ops.nv import ATOM_BYTES, MBARRIER_OPS
from .effects import op_names
from .whole_writes import WholeWrites, leaves_early

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
    if len(ops) > 1 and total >= _WORTH and not MBARRIER_OPS.intersection(op_names(kernel)):
        packed = _packed(sizes, Uses(kernel, ops))
        tight = max(at + size for at, size in zip(packed, sizes, strict=True))
        if total - tight >= _WORTH:
            return Block(tuple(map(Array, ops, sizes, packed)), tight, True)
    return Block(tuple(map(Array, ops, sizes, plain, aligns)), total, False)


def _tiles(kernel: Kernel) -> frozenset[int]:
    """The arrays that tensor copies and products by warpgroups use."""
    ops = ops_named(kernel.body, "nv_tensor_load", "nv_tensor_store", "nv_wgmma")
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


class Uses:
    """In which stretches between barriers each array is in use."""

    def __init__(self, kernel: Kernel, ops: list[Op]) -> None:
        self._arrays = [op.results[0].id for op in ops]
        self._body, self._whole = kernel.body, WholeWrites(kernel)
        self._touched: dict[int, frozenset[int]] = {}  # by the op's identity
        self._copied: set[int] = set()
        last_wait = 0
        for phase, op in _phases(kernel.body):
            for each in (op, *_inside(op)):
                if each.name == "copy_async":
                    self._copied.update(v.id for v in each.operands)
                elif each.name == "copy_wait":
                    last_wait = phase
        self._spans = [self._span(kernel.body, array) for array in self._arrays]
        for n, array in enumerate(self._arrays):
            if array in self._copied:
                low, high = self._spans[n]
                self._spans[n] = low, max(high, last_wait)

    def together(self, n: int, k: int) -> bool:
        """Whether two arrays may be in use at once."""
        one, two = self._spans[n], self._spans[k]
        if not (one[0] <= two[1] and two[0] <= one[1]):
            return False
        a, b = self._arrays[n], self._arrays[k]
        return bool(self._copied & {a, b}) or not self._apart_in_a_loop(self._body, a, b)

    def _apart_in_a_loop(self, region: Region, a: int, b: int) -> bool:
        users = [op for op in region.ops if self._touches(op) & {a, b}]
        if len(users) != 1 or users[0].name != "for":
            return False
        turn = users[0].regions[0]
        return self._apart_in(turn, a, b) or self._apart_in_a_loop(turn, a, b)

    def _apart_in(self, turn: Region, a: int, b: int) -> bool:
        """Whether two arrays share nothing within the turns of a loop: a barrier stands between
        the uses of one and of the other, also from the end of a turn to the next, and each turn
        writes both whole before it reads them, so that neither is needed by the next."""
        one, two = sorted((self._span(turn, a), self._span(turn, b)))
        if one[0] > one[1] or two[0] > two[1] or one[1] >= two[0] or leaves_early(turn):
            return False
        barriers = sum(op.name == "barrier" for op in turn.ops)
        if barriers - two[1] + one[0] < 1:
            return False
        return self._whole.in_turn(a, turn) and self._whole.in_turn(b, turn)

    def _span(self, region: Region, array: int) -> tuple[int, int]:
        """The first and last stretch between a region's barriers that uses an array; (1, 0): none
        does."""
        used = [phase for phase, op in _phases(region) if array in self._touches(op)]
        return (used[0], used[-1]) if used else (1, 0)

    def _touches(self, op: Op) -> frozenset[int]:
        """The values that an op and what is inside it take."""
        found = self._touched.get(id(op))
        if found is None:
            found = frozenset(v.id for o in (op, *_inside(op)) for v in o.operands)
            found = self._touched[id(op)] = found.intersection(self._arrays)
        return found


def _phases(region: Region) -> Iterator[tuple[int, Op]]:
    """The ops of a region, each with the barriers of the region up to it."""
    phase = 0
    for op in region.ops:
        phase += op.name == "barrier"
        yield phase, op


def _inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)


def _packed(sizes: list[int], uses: Uses) -> list[int]:
    """Each array at the lowest place that no array in use at the same time takes."""
    places: list[int] = []
    for n, size in enumerate(sizes):
        others = [
            (places[k], _aligned(places[k] + sizes[k])) for k in range(n) if uses.together(n, k)
        ]
        at = 0
        for start, end in sorted(others):
            if at + size <= start:
                break
            at = max(at, end)
        places.append(at)
    return places
