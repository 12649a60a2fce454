"""Products by warpgroups, roles, and barriers other than those of a whole workgroup."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core import Op, Value
from ..dtypes import DTYPES, DType
from ..ops.nv import ROWS, STEP_BYTES
from .bulk import nothing, swizzled
from .frame import Array, Frame, widen
from .memory import Memory
from .report import ProblemKind
from .values import decode, int_attr, register_type

if TYPE_CHECKING:
    from .machine import Machine

SIZE = 128  # invocations of a warpgroup
NAMED = 16  # named barriers, with that of the workgroup
_ROW = 128  # bytes of a row of a tile


def places(columns: int) -> tuple[Array, Array]:
    """Row and column of a sum by (invocation, register)."""
    lane = np.arange(SIZE)[:, None]
    register = np.arange(columns // 2)[None]
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register // 2 % 2)
    return row + 0 * register, 8 * (register // 4) + 2 * (lane % 4) + register % 2


def _whole(machine: Machine, frame: Frame, op: Op) -> bool:
    """Whether all invocations of each warpgroup are here."""
    group, local = np.divmod(frame.lanes, machine.workgroup_count)
    keys = group * machine.workgroup_count + local // SIZE
    counts = np.unique(keys, return_counts=True)[1]
    if (counts == SIZE).all():
        return True
    text = f"{op.name} is reached by {int(counts.min())} of {SIZE} invocations of a warpgroup"
    machine.recorder.add(ProblemKind.SUBGROUP_DIVERGENCE, op, 1, lambda: text)
    return False


def _index(machine: Machine, frame: Frame, op: Op, value: Value) -> Array:
    """An index of each warpgroup, which is the same for all its invocations."""
    index = widen(frame.get(value.id), frame.size).astype(np.int64).reshape(-1, SIZE)
    if (index != index[:, :1]).any():
        text = f"{op.name}: the place of a tile differs within a warpgroup"
        machine.recorder.add(ProblemKind.SUBGROUP_DIVERGENCE, op, 1, lambda: text)
    return np.asarray(index[:, 0])


def _cells(
    machine: Machine,
    frame: Frame,
    op: Op,
    memory: Memory,
    index: Array,
    rows: int,
    width: int,
    parts: int = 1,
) -> Array:
    """Cells [warpgroups, parts, rows, width] of tiles in rows of 128 bytes; parts: tiles that
    follow each other."""
    size = memory.data.dtype.itemsize
    row = np.arange(parts * rows) * (_ROW // size)
    offsets = row[:, None] + np.arange(width)
    out = (index < 0) | (index + offsets.max() >= memory.count) | (index * size % 1024 != 0)
    if out.any():
        at = int(index[np.flatnonzero(out)[0]])
        text = f"a tile at {memory.name}[{at}], which has {memory.count} elements"
        machine.recorder.add(ProblemKind.OUT_OF_BOUNDS, op, int(out.sum()), lambda: text)
        index = np.where(out, 0, index)
        offsets = np.minimum(offsets, memory.count - 1)
    base = memory.base(machine, frame)
    first = (
        np.zeros(len(index), np.int64) if isinstance(base, int) else base.reshape(-1, SIZE)[:, 0]
    )
    inner = swizzled(index[:, None, None] + offsets, size, _ROW)
    found = np.asarray((first[:, None, None] + inner).reshape(len(index), parts, rows, width))
    if memory.written is not None and (fresh := ~memory.written[found]).any():
        text = f"{op.name} reads {memory.name} before anything was written there"
        count = int(fresh.sum())
        machine.recorder.add(ProblemKind.UNWRITTEN_READ, op, count, lambda: text)
    if memory.arriving is not None and memory.arriving[found].any():
        text = f"{op.name} reads {memory.name} before its mbarrier says that a copy has come"
        machine.recorder.add(ProblemKind.PENDING_COPY, op, 1, lambda: text)
    return found


def _numbers(stored: Array, element: DType) -> Array:
    values = decode(stored.view(element.storage), element)
    if element.is_float:
        return values.astype(np.float64)
    return values.astype(np.int64)


def _from_words(frame: Frame, values: tuple[Value, ...], element: DType, depth: int) -> Array:
    """a [warpgroups, 64, depth] from registers: four words a step, as mma.sync has them."""
    per = 4 // element.bytes
    words = np.stack([widen(frame.get(v.id), frame.size) for v in values], axis=1)
    parts = np.ascontiguousarray(words).view(np.uint32)[..., None].view(element.storage)
    parts = decode(parts, element).reshape(-1, SIZE, len(values), per)
    whole = np.zeros((len(parts), ROWS, depth), np.float64 if element.is_float else np.int64)
    for lane in range(SIZE):
        for n in range(len(values)):
            row = lane // 32 * 16 + lane % 32 // 4 + 8 * (n % 2)
            column = n // 4 * (STEP_BYTES // element.bytes) + (n // 2 % 2) * 4 * per
            column += lane % 4 * per
            whole[:, row, column : column + per] = parts[:, lane, n]
    return whole


def wgmma(machine: Machine, frame: Frame, op: Op) -> None:
    """Done at once; who reads the sum before the wait gets it early."""
    columns, depth = int_attr(op, "columns"), int_attr(op, "depth")
    element = DTYPES[str(op.attr("element"))]
    registers = bool(op.attr("registers"))
    first = depth * element.bytes // STEP_BYTES * 4 if registers else 2
    sums = op.operands[first + 2 :]
    if not _whole(machine, frame, op):
        for result, value in zip(op.results, sums, strict=True):
            frame.values[result.id] = frame.get(value.id)
        return
    if registers:
        left = _from_words(frame, op.operands[:first], element, depth)
    else:
        memory = machine.memories[op.operands[0].id]
        index = _index(machine, frame, op, op.operands[1])
        cells = _cells(machine, frame, op, memory, index, ROWS, depth)
        left = _numbers(memory.data[cells[:, 0]], element)
    memory = machine.memories[op.operands[first].id]
    index = _index(machine, frame, op, op.operands[first + 1])
    if op.attr("transposed"):
        wide = _ROW // element.bytes
        parts = -(-columns // wide)
        cells = _cells(machine, frame, op, memory, index, depth, min(wide, columns), parts)
        tiles = _numbers(memory.data[cells], element)  # [warpgroups, parts, depth, columns]
        right = tiles.transpose(0, 1, 3, 2).reshape(len(tiles), -1, depth)[:, :columns]
    else:
        cells = _cells(machine, frame, op, memory, index, columns, depth)
        right = _numbers(memory.data[cells[:, 0]], element)
    with np.errstate(all="ignore"):
        product = left @ right.transpose(0, 2, 1)
    row, column = places(columns)
    own = product[:, row, column].reshape(frame.size, -1)
    for n, (result, value) in enumerate(zip(op.results, sums, strict=True)):
        total = own[:, n]
        with np.errstate(all="ignore"):
            if op.attr("accumulate"):
                total = widen(frame.get(value.id), frame.size).astype(own.dtype) + total
            frame.values[result.id] = total.astype(register_type(result.type))  # type: ignore[arg-type]


def wgmma_wait(machine: Machine, frame: Frame, op: Op) -> None:
    for result, value in zip(op.results, op.operands, strict=True):
        frame.values[result.id] = frame.get(value.id)


def role(machine: Machine, frame: Frame, op: Op) -> None:
    own = frame.lanes % machine.workgroup_count // 32 - int_attr(op, "first")
    frame.values[op.result.id] = (own >= 0) & (own < int_attr(op, "count"))


def warpgroup(machine: Machine, frame: Frame, op: Op) -> None:
    own = frame.lanes % machine.workgroup_count // SIZE
    frame.values[op.result.id] = own.astype(machine.kernel.index.storage)


def _come(machine: Machine, frame: Frame, op: Op) -> Array:
    """Places of the named barriers that the invocations have come to now."""
    number = widen(frame.get(op.operands[0].id), frame.size).astype(np.int64)
    odd = (number < 1) | (number >= NAMED)
    if odd.any():
        first = int(number[np.flatnonzero(odd)[0]])
        text = f"there is no named barrier {first}: 1 to {NAMED - 1}"
        machine.recorder.add(ProblemKind.OUT_OF_BOUNDS, op, int(odd.sum()), lambda: text)
        number = np.where(odd, 1, number)
    places = machine.group_of(frame) * NAMED + number
    np.add.at(machine.named, places, 1)
    return np.unique(places)


def named_arrive(machine: Machine, frame: Frame, op: Op) -> None:
    _come(machine, frame, op)
    for task in machine.tasks.stack:
        task.moved = True


def named_barrier(machine: Machine, frame: Frame, op: Op) -> None:
    """Whoever is at it waits until the others have come."""
    count, came, here = int_attr(op, "count"), machine.named, _come(machine, frame, op)
    needed = -(-came[here] // count) * count

    def what() -> str:
        at = int(np.flatnonzero(came[here] < needed)[0])
        text = f"named barrier {int(here[at]) % NAMED} is for {count} invocations"
        return f"{text}, of which {int(came[here[at]] % count)} have come, and nobody goes on"

    machine.tasks.wait(lambda: bool((came[here] >= needed).all()), op, what)


def grid_barrier(machine: Machine, frame: Frame, op: Op) -> None:
    """All workgroups are in one chunk."""
    machine.barrier(frame, op)
    here = np.unique(machine.group_of(frame))
    if len(here) != machine.groups:
        text = f"the barrier of the grid is reached by {len(here)} of {machine.groups} workgroups"
        machine.recorder.add(ProblemKind.BARRIER_DIVERGENCE, op, 1, lambda: text)


def cluster_rank(machine: Machine, frame: Frame, op: Op) -> None:
    x = (machine.first + machine.group_of(frame)) % machine.grid[0]
    rank = x % machine.cluster
    frame.values[op.result.id] = rank.astype(machine.kernel.index.storage)


def cluster_barrier(machine: Machine, frame: Frame, op: Op) -> None:
    machine.barrier(frame, op)


HANDLERS = {
    "nv_wgmma": wgmma,
    "nv_wgmma_wait": wgmma_wait,
    "nv_wgmma_fence": nothing,
    "nv_wgmma_commit": nothing,
    "nv_set_max_registers": nothing,
    "nv_role": role,
    "nv_warpgroup": warpgroup,
    "nv_named_barrier": named_barrier,
    "nv_named_arrive": named_arrive,
    "grid_barrier": grid_barrier,
    "nv_cluster_rank": cluster_rank,
    "nv_cluster_barrier": cluster_barrier,
    "nv_wait_for_previous": nothing,
    "nv_launch_next": nothing,
}
