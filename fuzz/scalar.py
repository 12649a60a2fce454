"""Kernel IR run one invocation at a time, in plain Python: what the interpreter is checked against.

Each invocation is a Python generator that stops at barriers and subgroup ops; a workgroup goes on
when all of its invocations stand at the same one.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from ..ir.core import Kernel, Op, Region
from ..ir.dtypes import DType, MemType, Space, Type, VectorType, element_of, lanes_of
from . import scalar_ops as ops

Signal = tuple[str, list[Any]]  # how a region ended, and the values it gave


def run(kernel: Kernel, args: Sequence[Any], grid: tuple[int, int, int]) -> set[int]:
    """Run a kernel; arrays are modified in place. The fault sites that were hit."""
    memory: dict[int, list[Any]] = {}
    scalars: dict[int, Any] = {}
    for param, value, arg in zip(kernel.params, kernel.body.args, args, strict=True):
        if param.is_memory:
            word = f"u{param.dtype.bytes}"
            bits = arg.reshape(-1).view(word).tolist()
            memory[value.id] = [ops.from_pattern(b, param.dtype) for b in bits]
        else:
            scalars[value.id] = arg
    faults: set[int] = set()
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                _workgroup(kernel, memory, scalars, grid, (x, y, z), faults)
    for param, value, arg in zip(kernel.params, kernel.body.args, args, strict=True):
        if param.is_memory and param.access.writes:
            bits = [ops.pattern(v, param.dtype) for v in memory[value.id]]
            arg.reshape(-1)[:] = np.array(bits, f"u{param.dtype.bytes}").view(arg.dtype)
    return faults


def _workgroup(kernel, memory, scalars, grid, group, faults) -> None:
    shared: dict[int, list[Any]] = {}
    runs = []
    for local in range(kernel.workgroup_count):
        invocation = _Invocation(kernel, {**scalars}, grid, group, local, faults)
        invocation.memory, invocation.shared = dict(memory), shared
        runs.append(invocation.region(kernel.body))
    size = kernel.subgroup or 1
    answers: list[Any] = [None] * len(runs)
    while True:
        stops = []
        for run_, answer in zip(runs, answers, strict=True):
            try:
                stops.append(run_.send(answer))
            except StopIteration:
                stops.append(None)
        if all(s is None for s in stops):
            return
        assert len({id(s[0]) if s else None for s in stops}) == 1, "invocations stand apart"
        op = stops[0][0]
        answers = [None] * len(runs)
        if op.name != "barrier":
            for first in range(0, len(runs), size):
                found = subgroup_op(op, [s[1] for s in stops[first : first + size]])
                answers[first : first + size] = found


def subgroup_op(op: Op, lanes: list[list[Any]]) -> list[Any]:
    """The results of a subgroup op from the operands of each lane."""
    size = len(lanes)
    if op.name == "subgroup_elect":
        return [lane == 0 for lane in range(size)]
    first = [operands[0] for operands in lanes]
    if lanes_of(op.operands[0].type) > 1 and op.name in ("subgroup_reduce", "subgroup_scan"):
        parts = [_reduced(op, list(part)) for part in zip(*first, strict=True)]
        return list(zip(*parts, strict=True))
    if op.name == "subgroup_any":
        return [any(first)] * size
    if op.name == "subgroup_all":
        return [all(first)] * size
    if op.name == "subgroup_ballot":
        return [sum(v << n for n, v in enumerate(first))] * size
    if op.name in ("subgroup_reduce", "subgroup_scan"):
        return _reduced(op, first)
    found = []
    for own, (_, n) in enumerate(lanes):
        lane = {"_xor": own ^ n, "e_up": own - n, "down": own + n}.get(op.name[-4:], n)
        outside = op.name[-4:] in ("e_up", "down") and not 0 <= lane < size
        found.append(first[own if outside else lane % size])
    return found


def _reduced(op: Op, values: list[Any]) -> list[Any]:
    """A reduction or scan of one scalar of each lane."""
    kind, t = str(op.attr("kind")), element_of(op.result.type)
    running = [values[0]]
    for value in values[1:]:
        running.append(ops.elementwise(kind, t, running[-1], value))
    if op.name == "subgroup_reduce":
        return [running[-1]] * len(values)
    return running if op.attr("inclusive") else [_identity(kind, t), *running[:-1]]


def _identity(kind: str, t: DType) -> int:
    values = {"add": 0, "or": 0, "xor": 0, "mul": 1, "min": t.max, "max": t.min}
    return values.get(kind, ops.wrap(-1, t))


class _Invocation:
    memory: dict[int, list[Any]]
    shared: dict[int, list[Any]]

    def __init__(self, kernel, values, grid, group, local, faults) -> None:
        self.kernel, self.values, self.faults = kernel, values, faults
        self.grid, self.group, self.local = grid, group, local

    def region(self, region: Region) -> Generator[Any, Any, Signal]:
        for op in region.ops:
            if op.name in ("yield", "break", "continue", "condition", "return"):
                return op.name, [self.values[v.id] for v in op.operands]
            if op.regions:
                way, values = yield from getattr(self, f"run_{op.name}")(op)
                if way != "yield":
                    return way, values
                self.values.update(zip((v.id for v in op.results), values, strict=True))
            elif op.name == "barrier" or (op.name.startswith("subgroup_") and not self.is_id(op)):
                operands = [self.values[v.id] for v in op.operands]
                answer = yield op, operands
                if op.results:
                    self.values[op.result.id] = answer
            else:
                result = self.simple(op)
                if op.results:
                    self.values[op.results[0].id] = result
        raise AssertionError("a region without a terminator")

    def enter(self, region: Region, values: Sequence[Any]) -> Generator[Any, Any, Signal]:
        self.values.update(zip((v.id for v in region.args), values, strict=True))
        return (yield from self.region(region))

    def run_if(self, op: Op) -> Generator[Any, Any, Signal]:
        return (yield from self.region(op.regions[0 if self.values[op.operands[0].id] else 1]))

    def run_switch(self, op: Op) -> Generator[Any, Any, Signal]:
        cases = list(_attrs(op)["cases"])
        selector = self.values[op.operands[0].id]
        at = cases.index(selector) if selector in cases else len(cases)
        return (yield from self.region(op.regions[at]))

    def run_for(self, op: Op) -> Generator[Any, Any, Signal]:
        low, high, *carried = (self.values[v.id] for v in op.operands)
        for counter in range(low, high):
            way, carried = yield from self.enter(op.regions[0], [counter, *carried])
            if way == "return":
                return way, carried
            if way == "break":
                break
        return "yield", carried

    def run_while(self, op: Op) -> Generator[Any, Any, Signal]:
        carried = [self.values[v.id] for v in op.operands]
        while True:
            way, (going,) = yield from self.enter(op.regions[0], carried)
            if not going:
                return "yield", carried
            way, carried = yield from self.enter(op.regions[1], carried)
            if way == "return":
                return way, carried
            if way == "break":
                return "yield", carried

    # ops without regions

    IDS = ("subgroup_id", "subgroup_lane", "num_subgroups", "global_id", "local_id", "group_id")

    def is_id(self, op: Op) -> bool:
        return op.name in self.IDS

    def simple(self, op: Op) -> Any:
        if op.name in ("load", "store", "atomic", "compare_exchange"):
            return self.reach(op)
        if op.name == "alloc":
            t = op.result.type
            assert isinstance(t, MemType)
            owner = self.memory if t.space is Space.PRIVATE else self.shared
            if op.result.id not in owner:
                owner[op.result.id] = [ops.from_pattern(0, t.element)] * (t.count or 0)
            return None
        if op.name in ("fence", "copy_commit", "copy_wait"):
            return None
        if op.name == "copy_async":
            return self.copy(op)
        if op.name == "assert":
            if not self.values[op.operands[0].id]:
                self.faults.add(_attrs(op)["site"])
            return None
        if op.name == "count":
            return len(self.memory[op.operands[0].id])
        if op.name in (*self.IDS, "num_groups", "local_linear_id"):
            return self.id(op)
        return compute(op, [self.values[v.id] for v in op.operands])

    def id(self, op: Op) -> int:
        dim = _attrs(op).get("dim", 0)
        wx, wy, _ = self.kernel.workgroup
        place = (self.local % wx, self.local // wx % wy, self.local // wx // wy)[dim]
        size = self.kernel.subgroup or 1
        return {
            "global_id": self.group[dim] * self.kernel.workgroup[dim] + place,
            "local_id": place,
            "group_id": self.group[dim],
            "num_groups": self.grid[dim],
            "local_linear_id": self.local,
            "subgroup_id": self.local // size,
            "subgroup_lane": self.local % size,
            "num_subgroups": self.kernel.workgroup_count // size,
        }[op.name]

    def copy(self, op: Op) -> None:
        """At once: nothing may read it before it is awaited."""
        target, at, source, start, *given = op.operands
        count = _attrs(op)["count"]
        wanted = min(count, max(0, self.values[given[0].id])) if given else count
        first, to = self.values[start.id], self.values[at.id]
        cells = self.memory[source.id][first : first + wanted]
        assert len(cells) == wanted, "copy out of bounds"
        zero = ops.from_pattern(0, element_of(source.type))
        self.shared[target.id][to : to + count] = cells + [zero] * (count - wanted)

    def reach(self, op: Op) -> Any:
        number = op.operands[0].id
        cells = self.memory[number] if number in self.memory else self.shared[number]
        index = self.values[op.operands[1].id]
        if op.name == "load":
            lanes = lanes_of(op.result.type)
            part = cells[index * lanes : (index + 1) * lanes]
            assert len(part) == lanes, f"{op.name} out of bounds"
            return tuple(part) if lanes > 1 else part[0]
        value, t = self.values[op.operands[2].id], op.operands[2].type
        if op.name == "store":
            lanes = lanes_of(t)
            assert 0 <= index * lanes < len(cells), f"{op.name} out of bounds"
            cells[index * lanes : (index + 1) * lanes] = value if lanes > 1 else [value]
            return None
        old = cells[index]
        if op.name == "compare_exchange":
            if ops.pattern(old, element_of(t)) == ops.pattern(value, element_of(t)):
                cells[index] = self.values[op.operands[3].id]
            return old
        if op.attr("kind") == "exchange":
            cells[index] = value
            return old
        cells[index] = ops.elementwise(str(op.attr("kind")), element_of(t), old, value)
        return old


def _attrs(op: Op) -> dict[str, Any]:
    return dict(op.attrs)


def compute(op: Op, operands: list[Any]) -> Any:
    """The result of an op on values alone."""
    attrs, types = _attrs(op), [v.type for v in op.operands]
    t = cast(DType | VectorType, op.result.type)
    if op.name == "const":
        return ops.from_pattern(attrs["bits"], element_of(t))
    if op.name == "vector":
        return tuple(operands)
    if op.name == "splat":
        return (operands[0],) * lanes_of(t)
    if op.name == "extract":
        return operands[0][attrs["lane"]]
    if op.name == "insert":
        at = attrs["lane"]
        return (*operands[0][:at], operands[1], *operands[0][at + 1 :])
    if op.name == "shuffle":
        both = operands[0] + operands[1]
        return tuple(both[n] for n in attrs["lanes"])
    if op.name == "bitcast":
        return _bitcast(operands[0], types[0], t)
    if op.name == "dot4":
        a, b, total = operands
        return ops.dot4(a, element_of(types[0]), b, element_of(types[1]), total, element_of(t))
    if op.name == "select" and not isinstance(types[0], VectorType):
        return operands[1] if operands[0] else operands[2]
    if not isinstance(t, VectorType):
        return _scalar(op.name, types, t, operands)
    return tuple(_scalar(op.name, types, t, lane) for lane in zip(*operands, strict=True))


def _scalar(name: str, types: list[Type], t: Type, operands: Sequence[Any]) -> Any:
    if name == "select":
        return operands[1] if operands[0] else operands[2]
    if name == "ldexp":
        value, power = operands
        if math.isnan(value) or math.isinf(value) or value == 0:
            return value
        return ops.nearest(Fraction(value) * Fraction(2) ** power, element_of(t))
    if name == "convert":
        return ops.convert(operands[0], element_of(types[0]), element_of(t))
    return ops.elementwise(name, element_of(types[0]), *operands)


def _bitcast(value: Any, source: Type, target: Type) -> Any:
    parts = value if isinstance(source, VectorType) else (value,)
    bits, width = 0, element_of(source).bits
    for n, part in enumerate(parts):
        bits |= ops.pattern(part, element_of(source)) << (n * width)
    element = element_of(target)
    mask = (1 << element.bits) - 1
    found = [
        ops.from_pattern((bits >> (n * element.bits)) & mask, element)
        for n in range(lanes_of(target))
    ]
    return tuple(found) if isinstance(target, VectorType) else found[0]
