"""Bulk and tensor copies, in both directions; see `mbarriers`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..abi import evaluate
from ..core import Attr, Op
from ..ops.nv import ATOM_BYTES
from .frame import Array, Frame
from .mbarriers import Barriers, Bulk, Store, barrier_place, numbers, said
from .memory import Memory, watch_arriving
from .report import ProblemKind
from .values import int_attr

if TYPE_CHECKING:
    from .machine import Machine


def _check(
    machine: Machine, frame: Frame, op: Op, bad: Array, kind: ProblemKind, what: str
) -> bool:
    if bad.any():
        who = machine.describe(frame, int(np.flatnonzero(bad)[0]))
        text = f"{op.name}: {what}, by invocation {who}"
        machine.recorder.add(kind, op, int(np.count_nonzero(bad)), said(text))
    return bool(bad.any())


def _send(
    machine: Machine,
    frame: Frame,
    op: Op,
    memory: Memory,
    cells: Array,
    values: Array,
    position: int,
    told: tuple[Barriers, int],
) -> None:
    """One copy of one invocation begins."""
    watch_arriving(machine, frame, op, memory, cells[None], np.array([position]))
    memory.begin(cells)
    size = values.size * values.dtype.itemsize
    machine.mbarriers.bulks.append(Bulk(memory, cells, values, *told, size))


def bulk_load(machine: Machine, frame: Frame, op: Op) -> None:
    target, source = (machine.memories[op.operands[n].id] for n in (0, 2))
    to, start, count = (numbers(frame, op.operands[n]) for n in (1, 3, 4))
    barriers, cells = barrier_place(machine, frame, op, 5)
    if _bulk_problem(machine, frame, op, (target, to), (source, start), count):
        return
    base = target.base(machine, frame)
    for n in range(frame.size):
        own = base if isinstance(base, int) else int(base[n])
        steps = np.arange(count[n])
        values = source.data[start[n] + steps].copy()
        place = own + to[n] + steps
        _send(machine, frame, op, target, place, values, n, (barriers, int(cells[n])))


def bulk_store(machine: Machine, frame: Frame, op: Op) -> None:
    target, source = (machine.memories[op.operands[n].id] for n in (0, 2))
    to, start, count = (numbers(frame, op.operands[n]) for n in (1, 3, 4))
    if _bulk_problem(machine, frame, op, (source, start), (target, to), count):
        return
    base = source.base(machine, frame)
    for n in range(frame.size):
        own = base if isinstance(base, int) else int(base[n])
        steps = np.arange(count[n])
        _later(machine, frame, op, n, (target, to[n] + steps), (source, own + start[n] + steps))


def _later(
    machine: Machine,
    frame: Frame,
    op: Op,
    n: int,
    target: tuple[Memory, Array],
    source: tuple[Memory, Array],
) -> None:
    def move() -> None:
        target[0].data[target[1]] = source[0].data[source[1]]

    lane, state = int(frame.lanes[n]), machine.mbarriers
    state.stores.append(Store(op, lane, int(state.committed[lane]), move))


def commit(machine: Machine, frame: Frame, op: Op) -> None:
    machine.mbarriers.committed[frame.lanes] += 1


def bulk_wait(machine: Machine, frame: Frame, op: Op) -> None:
    state, left, here = machine.mbarriers, [], set(frame.lanes.tolist())
    for store in state.stores:
        limit = state.committed[store.lane] - int_attr(op, "pending")
        if store.lane in here and store.group < limit:
            store.move()
        else:
            left.append(store)
    state.stores = left


def _bulk_problem(
    machine: Machine,
    frame: Frame,
    op: Op,
    array: tuple[Memory, Array],
    buffer: tuple[Memory, Array],
    count: Array,
) -> bool:
    size = array[0].data.dtype.itemsize
    bad = False
    for memory, index in (array, buffer):
        out = (index < 0) | (count < 0) | (index + count > memory.count)
        what = f"outside of {memory.name}, which has {memory.count} elements"
        bad |= _check(machine, frame, op, out, ProblemKind.OUT_OF_BOUNDS, what)
        odd = (index * size % 16 != 0) | (count * size % 16 != 0)
        what = f"an index of {memory.name} or a count that is no multiple of 16 bytes"
        bad |= _check(machine, frame, op, odd, ProblemKind.MISALIGNED, what)
    return bad


def swizzled(cells: Array, size: int, span: int) -> Array:
    """Where elements of a tile lie: chunks of 16 bytes in each row of `span` bytes are exchanged.
    size: bytes of an element."""
    if not span:
        return cells
    places = cells * size
    chunk = places // 128 & (span // 16 - 1)
    return np.asarray((places ^ chunk << 4) // size)


class _Box:
    """The elements of a box at one place of a tensor: cells of the tile and of the buffer."""

    def __init__(self, machine: Machine, op: Op, at: list[int], buffer: Memory) -> None:
        shape, strides = (self._evaluated(machine, op, n) for n in ("shape", "strides"))
        box = op.attr("box")
        assert isinstance(box, tuple)
        extents = [n for n in box if isinstance(n, int)]
        places = np.indices(extents).reshape(len(extents), -1) + np.array(at)[:, None]
        sizes = np.array(shape)[:, None]
        self.inside = ((places >= 0) & (places < sizes)).all(axis=0)
        steps = np.array([*strides, 1])[:, None]
        self.cells = (places * steps).sum(axis=0)
        self.inside &= (self.cells >= 0) & (self.cells < buffer.count)
        self.count = math.prod(extents)
        last = sum((n - 1) * s for n, s in zip(shape, [*strides, 1], strict=True))
        self.fits = last < buffer.count and min(shape) > 0

    def _evaluated(self, machine: Machine, op: Op, name: str) -> list[int]:
        expressions = op.attr(name)
        assert isinstance(expressions, tuple)
        return [self._number(machine, e) for e in expressions]

    def _number(self, machine: Machine, expression: Attr) -> int:
        return evaluate(expression, machine.counts, machine.scalars, machine.grid)


def _tile(
    machine: Machine, frame: Frame, op: Op, n: int, memory: Memory, index: int, box: _Box
) -> Array | None:
    """Cells of the box in a workgroup array; None where it does not fit."""
    size = memory.data.dtype.itemsize
    span = int_attr(op, "swizzle")
    here = np.zeros(frame.size, bool)
    here[n] = True
    if not box.fits:
        what = "the tensor does not lie within its buffer"
        _check(machine, frame, op, here, ProblemKind.OUT_OF_BOUNDS, what)
        return None
    unit = ATOM_BYTES if span else 128
    if index * size % unit:
        what = f"index {index} of {memory.name} is no multiple of {unit} bytes"
        _check(machine, frame, op, here, ProblemKind.MISALIGNED, what)
        return None
    if index < 0 or index + box.count > memory.count:
        what = f"a box of {box.count} elements at {memory.name}[{index}], which has {memory.count}"
        _check(machine, frame, op, here, ProblemKind.OUT_OF_BOUNDS, what)
        return None
    base = memory.base(machine, frame)
    own = base if isinstance(base, int) else int(base[n])
    return own + swizzled(index + np.arange(box.count), size, span)


def tensor_load(machine: Machine, frame: Frame, op: Op) -> None:
    target, source = (machine.memories[op.operands[n].id] for n in (0, 2))
    index = numbers(frame, op.operands[1])
    barriers, cells = barrier_place(machine, frame, op, 3)
    box_attr = op.attr("box")
    assert isinstance(box_attr, tuple)
    at = [numbers(frame, v) for v in op.operands[5 : 5 + len(box_attr)]]
    several = bool(op.attr("multicast"))
    masks = numbers(frame, op.operands[-1]) if several else np.zeros(frame.size, np.int64)
    own = machine.group_of(frame) % machine.cluster
    room = machine.memories[op.operands[3].id].count
    for n in range(frame.size):
        box = _Box(machine, op, [int(a[n]) for a in at], source)
        place = _tile(machine, frame, op, n, target, int(index[n]), box)
        if place is None:
            continue
        values = np.zeros(box.count, source.data.dtype)
        values[box.inside] = source.data[box.cells[box.inside]]
        ranks = [r for r in range(machine.cluster) if masks[n] >> r & 1]
        for away in [r - int(own[n]) for r in ranks] if several else [0]:
            told = (barriers, int(cells[n]) + away * room)
            _send(machine, frame, op, target, place + away * target.count, values, n, told)


def tensor_store(machine: Machine, frame: Frame, op: Op) -> None:
    target, source = (machine.memories[op.operands[n].id] for n in (0, 1))
    index = numbers(frame, op.operands[2])
    at = [numbers(frame, v) for v in op.operands[3:]]
    for n in range(frame.size):
        box = _Box(machine, op, [int(a[n]) for a in at], target)
        place = _tile(machine, frame, op, n, source, int(index[n]), box)
        if place is not None:
            to, start = box.cells[box.inside], place[box.inside]
            _later(machine, frame, op, n, (target, to), (source, start))


def nothing(machine: Machine, frame: Frame, op: Op) -> None:
    """Memory is in order here."""


HANDLERS = {
    "nv_bulk_load": bulk_load,
    "nv_bulk_store": bulk_store,
    "nv_tensor_load": tensor_load,
    "nv_tensor_store": tensor_store,
    "nv_tensor_prefetch": nothing,
    "nv_bulk_commit": commit,
    "nv_bulk_wait": bulk_wait,
    "nv_fence_async": nothing,
}
