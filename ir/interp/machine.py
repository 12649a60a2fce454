"""The machine: runs ops over the invocations of one chunk of workgroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import extensions
from ..core import Kernel, Op, Value, walk
from ..dtypes import DType, Space, element_of
from ..ops import ROWS
from . import (
    amd,
    atomics,
    bulk,
    control,
    copies,
    debug,
    fragments,
    mbarriers,
    memory,
    nv,
    subgroups,
    tasks,
    warpgroups,
)
from .frame import Array, Exits, Frame, Merger
from .races import LANE_BITS
from .report import InterpOptions, ProblemKind, Recorder
from .values import SHAPES, int_attr, settle

Handler = Callable[["Machine", Frame, Op], None]

ELEMENTWISE = {name: row.meaning for name, row in ROWS.items() if row.meaning is not None}


class Machine:
    """A chunk: workgroups `first` .. `first + groups - 1` of the grid, all their invocations.

    Invocation number n of the chunk is invocation `n % workgroup_count` of its workgroup, which is
    the chunk's `n // workgroup_count`-th.
    """

    def __init__(
        self,
        kernel: Kernel,
        options: InterpOptions,
        recorder: Recorder,
        grid: tuple[int, int, int],
        memories: dict[int, memory.Memory],
        used: frozenset[int],
    ) -> None:
        self.kernel, self.options, self.recorder, self.grid = kernel, options, recorder, grid
        self.used = used  # numbers of the values that some op takes
        self.memories = dict(memories)
        self.workgroup_count = kernel.workgroup_count
        self.subgroup = kernel.subgroup or options.subgroup
        self.subgroups = -(-self.workgroup_count // self.subgroup)
        self.tasks_wait = tasks.needed(kernel)
        self.watch_races = options.races and self.workgroup_count > 1
        self.cluster = extensions.cluster(kernel)
        self.counts: dict[str, int] = {}  # elements of the buffers
        self.scalars: dict[str, int] = {}
        self.epoch = 0

    def start(self, first: int, groups: int, arguments: dict[int, Array]) -> None:
        """Run workgroups `first` .. `first + groups - 1` (linear numbers) to their end."""
        self.first, self.groups = first, groups
        self.size = groups * self.workgroup_count
        self.merger = Merger(self.size)
        self.trips = np.zeros(self.size, np.int64)
        self.ids: dict[tuple[str, int], Array] = {}
        self.group, self.local = np.divmod(np.arange(self.size), self.workgroup_count)
        self._new_epochs(np.arange(groups))
        self.copies = copies.Copies(self.size)
        self.mbarriers = mbarriers.State(np.zeros(self.size, np.int64))
        self.tasks = tasks.Tasks(self)
        self.named = np.zeros(groups * warpgroups.NAMED, np.int64)  # arrivals at named barriers
        frame = Frame(np.arange(self.size))
        frame.values.update(arguments)
        self.run(frame, self.kernel.body.ops, Exits())
        self.copies.finish(self.recorder)
        self.mbarriers.finish(self.recorder)
        self.recorder.max_trips = max(self.recorder.max_trips, int(self.trips.max()))

    def run(self, frame: Frame, ops: Sequence[Op], exits: Exits) -> None:
        """Run the ops of a region; how its invocations leave goes to `exits`."""
        for op in ops:
            meaning = ELEMENTWISE.get(op.name)
            if meaning is not None:
                (result,) = op.results
                dtype = element_of(result.type)
                operands = [frame.get(v.id) for v in op.operands]
                frame.values[result.id] = settle(meaning(*operands, out=dtype), dtype)
            elif op.regions:
                done = control.STRUCTURES[op.name](self, frame, op, exits)
                if done is None:
                    return
                frame = self.enter(frame, done.lanes)
                frame.values.update(zip((v.id for v in op.results), done.values, strict=True))
            elif op.name in control.TERMINATORS:
                control.TERMINATORS[op.name](frame, op, exits)
                return
            else:
                HANDLERS[op.name](self, frame, op)

    def enter(self, frame: Frame, lanes: Array) -> Frame:
        """The frame of the invocations `lanes` of a frame: the same one where all go on."""
        if len(lanes) == frame.size:
            return frame
        return frame.child(self.merger.positions(lanes, frame.lanes))

    # invocations and workgroups

    def group_of(self, frame: Frame) -> Array:
        """The workgroup, counted within the chunk, of each invocation."""
        return self.group if frame.size == self.size else self.group[frame.lanes]

    def keys(self, frame: Frame) -> Array:
        """The stamps of the invocations for race tables."""
        if frame.size == self.size:
            return self._keys
        return np.asarray(self._keys[frame.lanes])

    def all_keys(self) -> Array:
        """The stamps of all invocations of the chunk."""
        return self._keys

    def _new_epochs(self, groups: Array) -> None:
        """Start a new epoch of these workgroups: what was done before does not conflict."""
        if not self.watch_races:
            return
        if len(groups) == self.groups:
            self.epochs = self.epoch + 1 + groups
        else:
            self.epochs = self.epochs.copy()
            self.epochs[groups] = self.epoch + 1 + np.arange(len(groups))
        self.epoch += len(groups)
        self._keys = self.epochs[self.group] << LANE_BITS | self.local

    def barrier(self, frame: Frame, op: Op) -> None:
        """Check that whole workgroups arrive; orders memory between their invocations."""
        if frame.size == self.size:
            self._new_epochs(np.arange(self.groups))
            return
        here = np.bincount(self.group_of(frame), minlength=self.groups)
        short = np.flatnonzero((here != 0) & (here != self.workgroup_count))
        if len(short):
            self.recorder.add(
                ProblemKind.BARRIER_DIVERGENCE,
                op,
                len(short),
                lambda: (
                    f"the barrier is reached by {int(here[short[0]])} of {self.workgroup_count} "
                    f"invocations of workgroup {self.group_name(int(short[0]))}"
                ),
            )
        self._new_epochs(np.flatnonzero(here))

    def group_name(self, group: int) -> str:
        """The id of a workgroup of the chunk, for messages."""
        gx, gy, _ = self.grid
        linear = self.first + group
        return str((linear % gx, linear // gx % gy, linear // gx // gy))

    def local_name(self, local: int) -> str:
        """The id of an invocation within its workgroup, for messages."""
        wx, wy, _ = self.kernel.workgroup
        return str((local % wx, local // wx % wy, local // wx // wy))

    def describe(self, frame: Frame, position: int) -> str:
        """An invocation of the frame, for messages."""
        group, local = divmod(int(frame.lanes[position]), self.workgroup_count)
        return f"{self.local_name(local)} of workgroup {self.group_name(group)}"

    # ids

    def id_values(self, name: str, dim: int) -> Array:
        """An id of all invocations of the chunk, [size], or [1] where it is the same for all."""
        key = (name, dim)
        if key not in self.ids:
            values = np.asarray(self._compute_id(name, dim), self.kernel.index.storage)
            self.ids[key] = np.atleast_1d(values)
        return self.ids[key]

    def _compute_id(self, name: str, dim: int) -> Array | int:
        sizes = self.kernel.workgroup
        if name == "num_groups":
            return self.grid[dim]
        if name == "num_subgroups":
            return self.subgroups
        group, local = self.group, self.local
        if name == "local_linear_id":
            return local
        if name == "subgroup_id":
            return local // self.subgroup
        if name == "subgroup_lane":
            return local % self.subgroup
        along = 0 if sizes[dim] == 1 else local // int(np.prod(sizes[:dim])) % sizes[dim]
        if name == "local_id":
            return along
        before = int(np.prod(self.grid[:dim]))
        place: Array | int = 0
        if self.grid[dim] != 1:
            place = (self.first + group) // before % self.grid[dim]
        return place if name == "group_id" else place * sizes[dim] + along


def _id(machine: Machine, frame: Frame, op: Op) -> None:
    dim = next((v for k, v in op.attrs if k == "dim"), 0)
    assert isinstance(dim, int)
    values = machine.id_values(op.name, dim)
    if len(values) != 1 and frame.size != machine.size:
        values = values[frame.lanes]
    frame.values[op.result.id] = values


def _count(machine: Machine, frame: Frame, op: Op) -> None:
    t = op.result.type
    assert isinstance(t, DType)
    count = machine.memories[op.operands[0].id].count
    frame.values[op.result.id] = np.array([count], t.storage)


def _alloc(machine: Machine, frame: Frame, op: Op) -> None:
    machine.memories[op.result.id] = memory.allocate(machine, op)


def _assert(machine: Machine, frame: Frame, op: Op) -> None:
    if not frame.get(op.operands[0].id).all():
        machine.recorder.faults.add(int_attr(op, "site"))


def _shape(machine: Machine, frame: Frame, op: Op) -> None:
    frame.values[op.result.id] = SHAPES[op.name](frame, op)


def _subgroup_barrier(machine: Machine, frame: Frame, op: Op) -> None:
    """Ops run in step, so it is passed already; accesses before it do not conflict."""
    machine._new_epochs(np.unique(machine.group_of(frame)))


def _fence(machine: Machine, frame: Frame, op: Op) -> None:
    """Every access is complete when the next op starts: nothing to do."""


IDS = (
    "global_id",
    "local_id",
    "group_id",
    "num_groups",
    "local_linear_id",
    "subgroup_id",
    "subgroup_lane",
    "num_subgroups",
)

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(IDS, _id),
    **dict.fromkeys(SHAPES, _shape),
    **fragments.HANDLERS,
    **nv.HANDLERS,
    **amd.HANDLERS,
    **copies.HANDLERS,
    **mbarriers.HANDLERS,
    **bulk.HANDLERS,
    **warpgroups.HANDLERS,
    **dict.fromkeys(subgroups.KINDS, subgroups.run_subgroup),
    "count": _count,
    "alloc": _alloc,
    "load": memory.load,
    "store": memory.store,
    "atomic": atomics.atomic,
    "compare_exchange": atomics.compare_exchange,
    "barrier": Machine.barrier,
    "fence": _fence,
    "subgroup_barrier": _subgroup_barrier,
    "assert": _assert,
    "print": debug.print_values,
    "breakpoint": debug.stop,
}


def used_values(kernel: Kernel) -> frozenset[int]:
    """The numbers of all values that some op takes as an operand."""
    return frozenset(v.id for op in walk(kernel.body) for v in op.operands)


def array_bytes(kernel: Kernel) -> int:
    """Bytes of all workgroup and private arrays of one workgroup."""
    total = 0
    for op in walk(kernel.body):
        if op.name == "alloc":
            total += _bytes(op.result, kernel.workgroup_count)
    return total


def _bytes(value: Value, invocations: int) -> int:
    t = value.type
    space = getattr(t, "space", None)
    owners = invocations if space is Space.PRIVATE else 1
    return owners * (getattr(t, "count", 0) or 0) * element_of(t).bytes
