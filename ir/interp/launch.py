"""Running a kernel: arguments checked, the grid taken chunk by chunk."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..builder import const_bits
from ..core import Kernel, Param
from ..dtypes import Space
from ..extensions import cluster, used
from . import tasks
from .frame import Array
from .machine import Machine, array_bytes, used_values
from .memory import Memory
from .races import MANY, RaceTable
from .report import InterpOptions, Recorder, Report
from .values import from_bits

_VALUE_BYTES = 512  # what the values of one invocation take, roughly


@dataclass(frozen=True, slots=True)
class Bits:
    """A by-value scalar given as its bit pattern (`ir.abi.scalar_bits`)."""

    pattern: int


Scalar = int | float | bool | np.generic | Bits
Argument = np.ndarray | Scalar

_DEFAULTS = InterpOptions()


def run(
    kernel: Kernel,
    args: Sequence[Argument],
    grid: tuple[int, int, int],
    *,
    counts: Sequence[int] | None = None,
    options: InterpOptions = _DEFAULTS,
) -> Report:
    """Run a kernel over `grid` workgroups; buffers are modified in place.

    args: one per parameter, in order: for a buffer or slot a contiguous array in the memory form
    of its type (`DType.storage`; uint16 for bf16), for a scalar a number, which is converted to
    the parameter's type, or `Bits`. counts: elements per buffer, in order of the buffers; without
    it, all of each array. Raises TypeError and ValueError for arguments that do not fit, and
    InterpBudgetExceeded. A mistake of the kernel does not raise: it is in the report.
    """
    _check_launch(kernel, args, grid)
    if tasks.needed(kernel):
        options = replace(options, races=False)
    recorder = Recorder()
    memories, scalars = _bind(kernel, args, counts, options)
    total = math.prod(grid)
    used = used_values(kernel)
    machine = Machine(kernel, options, recorder, grid, memories, used)
    step = _chunk_groups(kernel, options, total)
    machine.counts, machine.scalars = _arguments(kernel, memories, scalars)
    for first in range(0, total, step):
        machine.start(first, min(step, total - first), scalars)
    return recorder.report()


def _arguments(
    kernel: Kernel, memories: dict[int, Memory], scalars: dict[int, Array]
) -> tuple[dict[str, int], dict[str, int]]:
    """Counts of buffers and values of integers by name, for expressions of `ir.abi`."""
    named = list(zip(kernel.params, kernel.body.args, strict=True))
    counts = {p.name: memories[v.id].count for p, v in named if p.is_memory}
    whole = [(p, v) for p, v in named if not p.is_memory and p.dtype.is_int]
    return counts, {p.name: int(scalars[v.id][0]) for p, v in whole}


def _chunk_groups(kernel: Kernel, options: InterpOptions, total: int) -> int:
    """How many workgroups to run at once: all that wait for each other, and of those whose
    invocations do so otherwise than by barriers, one cluster."""
    found = used(kernel)
    if "grid_barrier" in found:
        return max(1, total)
    if tasks.needed(kernel):
        return cluster(kernel)
    count = kernel.workgroup_count
    per_group = count * _VALUE_BYTES + 3 * array_bytes(kernel)
    return max(1, min(options.lanes // count, options.memory // per_group))


def _check_launch(kernel: Kernel, args: Sequence[Argument], grid: tuple[int, int, int]) -> None:
    where = f"kernel {kernel.name}"
    if len(args) != len(kernel.params):
        names = ", ".join(p.name for p in kernel.params)
        raise TypeError(f"{where} takes {len(kernel.params)} arguments ({names}), got {len(args)}")
    if kernel.workgroup_count >= MANY:
        raise ValueError(f"{where}: a workgroup has fewer than {MANY} invocations here")
    if len(grid) != 3 or any(n < 0 for n in grid):
        raise ValueError(f"{where}: the grid is three counts of workgroups, got {grid!r}")


def _bind(
    kernel: Kernel,
    args: Sequence[Argument],
    counts: Sequence[int] | None,
    options: InterpOptions,
) -> tuple[dict[int, Memory], dict[int, Array]]:
    memories: dict[int, Memory] = {}
    scalars: dict[int, Array] = {}
    buffers = sum(p.is_memory for p in kernel.params)
    if counts is not None and len(counts) != buffers:
        raise ValueError(f"kernel {kernel.name} has {buffers} buffers, got {len(counts)} counts")
    left = iter(counts or ())
    for param, value, arg in zip(kernel.params, kernel.body.args, args, strict=True):
        if param.is_memory:
            count = None if counts is None else next(left)
            memories[value.id] = _buffer(kernel, param, arg, count, options)
        else:
            scalars[value.id] = _scalar(kernel, param, arg)
    return memories, scalars


def _buffer(
    kernel: Kernel, param: Param, arg: Argument, count: int | None, options: InterpOptions
) -> Memory:
    where = f"argument {param.name} of kernel {kernel.name}"
    expected = param.dtype.storage
    if not isinstance(arg, np.ndarray):
        raise TypeError(f"{where}: expected an array of {expected}, got {type(arg).__name__}")
    if arg.dtype != expected:
        raise TypeError(f"{where}: expected an array of {expected}, got one of {arg.dtype}")
    if not arg.flags.c_contiguous:
        raise TypeError(f"{where}: the array is not contiguous; pass a contiguous copy")
    writes = param.kind == "buffer" and param.access.writes
    if writes and not arg.flags.writeable:
        raise TypeError(f"{where}: the kernel writes it, but the array is read-only")
    if count is None:
        count = arg.size
    if not 0 <= count <= arg.size:
        raise ValueError(f"{where}: count {count}, but the array has {arg.size} elements")
    memory = Memory(param.name, Space.BUFFER, param.dtype, count, arg.reshape(-1))
    if writes and options.races and kernel.workgroup_count > 1:
        memory.races = RaceTable(count)
    return memory


def _scalar(kernel: Kernel, param: Param, arg: Argument) -> Array:
    where = f"argument {param.name} of kernel {kernel.name}"
    dtype = param.dtype
    if isinstance(arg, Bits):
        return from_bits(arg.pattern, dtype)
    if isinstance(arg, np.generic):
        arg = arg.item()
    if not isinstance(arg, int | float):
        raise TypeError(f"{where}: expected a number for {dtype}, got {type(arg).__name__}")
    if dtype.is_int:
        if not isinstance(arg, int):
            raise TypeError(f"{where}: expected an integer for {dtype}, got {arg!r}")
        if not dtype.min <= arg <= dtype.max:
            raise ValueError(f"{where}: {arg} is not within {dtype} ({dtype.min} to {dtype.max})")
    return from_bits(const_bits(arg, dtype), dtype)
