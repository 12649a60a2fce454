"""Whether a turn of a loop writes a workgroup array whole before it reads it.

Then nothing in the array outlives a turn. The cells that a store writes are worked out by the ops'
own meanings, for all invocations of a workgroup and all turns of the loops around it, where its
index follows from ids within the workgroup, constants and such turns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import Kernel, Op, Region, Value, walk
from ..dtypes import DType, MemType, lanes_of
from ..ops import ROWS
from ..ops.table import Effect

Cells = npt.NDArray[Any]
_MOST = 1 << 20  # numbers that one store is worked out for
_DEPTH = 50  # ops behind one another in an index


class WholeWrites:
    """The question for one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._defs = {v.id: op for op in walk(kernel.body) for v in op.results}
        self._sizes = kernel.workgroup

    def in_turn(self, array: int, region: Region) -> bool:
        """Whether each turn through a loop's region writes all cells of an array (the number of its
        value) and then reads them, with a barrier of the region in between."""
        memory = self._defs[array].result.type
        assert isinstance(memory, MemType)
        written = np.zeros(memory.count or 0, bool)
        pending: list[Cells] = []
        for op in region.ops:
            if op.name == "barrier":
                for cells in pending:
                    written[cells] = True
                pending = []
                if written.all():
                    return True
            elif any(_reads(o, array) for o in (op, *_inside(op))):
                return False
            else:
                pending += self._stored(op, array, {}, len(written))
        return False

    def _stored(
        self, op: Op, array: int, turns: dict[int, tuple[int, Cells]], count: int
    ) -> Iterator[Cells]:
        """The cells that an op certainly writes. turns: the numbers of the loops around it, each
        along an axis of its own behind that of the invocations."""
        if op.name == "store" and op.operands[0].id == array:
            index = self._numbers(op.operands[1], turns, _DEPTH)
            if index is not None:
                lanes = lanes_of(op.operands[2].type)
                cells = (index.reshape(-1, 1).astype(np.int64) * lanes + np.arange(lanes)).ravel()
                if cells.min() >= 0 and cells.max() < count:
                    yield cells
        elif op.name == "for":
            region, numbers = op.regions[0], self._turns(op, len(turns))
            if numbers is not None:
                inner = {**turns, region.args[0].id: (len(turns), numbers)}
                for each in region.ops:
                    yield from self._stored(each, array, inner, count)

    def _turns(self, op: Op, axis: int) -> Cells | None:
        """The numbers that a loop counts, along its axis; None where they are not known or it may
        be left early."""
        ends = [self._numbers(v, {}, _DEPTH) for v in op.operands[:2]]
        if ends[0] is None or ends[1] is None or ends[0].size > 1 or ends[1].size > 1:
            return None
        if leaves_early(op.regions[0]) or not 0 < int(ends[1].item()) - int(ends[0].item()) < _MOST:
            return None
        dtype = op.operands[0].type
        assert isinstance(dtype, DType)
        numbers = np.arange(int(ends[0].item()), int(ends[1].item())).astype(dtype.storage)
        return numbers.reshape((1,) + (1,) * axis + (-1,))

    def _numbers(
        self, value: Value, turns: dict[int, tuple[int, Cells]], depth: int
    ) -> Cells | None:
        """An integer for every invocation (the first axis) and turn; None where it is unknown."""
        t = value.type
        if value.id in turns:
            axis, numbers = turns[value.id]
            return numbers.reshape(numbers.shape + (1,) * (len(turns) - 1 - axis))
        op = self._defs.get(value.id)
        if op is None or op.regions or not isinstance(t, DType) or not t.is_int or not depth:
            return None
        shape = (-1,) + (1,) * len(turns)
        if op.name == "const":
            bits = np.array([op.attr("bits")], f"u{t.bytes}")
            return bits.view(t.storage).reshape(shape)
        if op.name in ("local_id", "local_linear_id"):
            return self._ids(op).astype(t.storage).reshape(shape)
        row = ROWS[op.name]
        if row.meaning is None or row.effect is not Effect.PURE or not row.fold:
            return None
        operands = [self._numbers(v, turns, depth - 1) for v in op.operands]
        known = [o for o in operands if o is not None]
        if len(known) < len(operands):
            return None
        if np.prod(np.broadcast_shapes(*(o.shape for o in known))) > _MOST:
            return None
        return np.asarray(row.meaning(*known, out=t)).astype(t.storage)

    def _ids(self, op: Op) -> Cells:
        x, y, z = self._sizes
        linear = np.arange(x * y * z)
        if op.name == "local_linear_id":
            return linear
        return (linear % x, linear // x % y, linear // (x * y))[int(str(op.attr("dim")))]


def leaves_early(region: Region) -> bool:
    """Whether a turn through a loop's region may end before its last op."""
    return region.terminator.name != "continue" or any(
        o.name == "return" or (o.name in ("break", "continue") and op.name in ("if", "switch"))
        for op in region.ops
        for o in _inside(op)
    )


def _reads(op: Op, array: int) -> bool:
    at: Sequence[Value] = op.operands[1:] if op.name == "store" else op.operands
    return any(v.id == array for v in at)


def _inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)
