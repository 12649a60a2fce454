"""Smaller variants of a program: each a candidate that may show the same failure.

A variant need not be valid: whoever asks verifies it, runs it on the oracle and drops it where
either complains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..ir.core import Kernel, Op, Region, Value, max_id, renumber, walk, with_body
from ..ir.dtypes import DTYPES, DType, MemType, Type, VectorType
from ..ir.interface import const_bits
from ..ir.ops import ROWS, Effect
from ..ir.text import parse_kernel, print_kernel
from .program import Argument, Program

_PURE = (Effect.PURE, Effect.ID, Effect.READ, Effect.CONVERGENT, Effect.ALLOC)


def launches(program: Program) -> Iterator[Program]:
    """A smaller grid or workgroup, no subgroup."""
    kernel = program.kernel
    for dim in range(3):
        for part in (1, program.grid[dim] // 2):
            if 1 <= part < program.grid[dim]:
                yield replace(program, grid=_with(program.grid, dim, part))
    for dim in range(3):
        for part in (1, kernel.subgroup or 1, kernel.workgroup[dim] // 2):
            if 1 <= part < kernel.workgroup[dim]:
                size = _with(kernel.workgroup, dim, part)
                yield replace(program, kernel=replace(kernel, workgroup=size))
    if kernel.subgroup is not None:
        yield replace(program, kernel=replace(kernel, subgroup=None))


def _with(three: tuple[int, int, int], dim: int, part: int) -> tuple[int, int, int]:
    x, y, z = (part if n == dim else size for n, size in enumerate(three))
    return x, y, z


# ops


def removable(program: Program) -> list[Op]:
    """The ops that may be taken out, in order."""
    return [op for op in walk(program.kernel.body) if _removable(op)]


def without_ops(program: Program, first: int, size: int) -> Program:
    """The program without some of its removable ops; what used a result of theirs gets zero."""
    return _rebuilt(program, {id(op) for op in removable(program)[first : first + size]})


def _removable(op: Op) -> bool:
    return (op.name != "const" and ROWS[op.name].effect is not Effect.CONTROL) or bool(op.regions)


def _rebuilt(program: Program, gone: set[int]) -> Program:
    """The program without ops, by identity; their results are zero."""
    kernel = program.kernel
    fresh = iter(range(max_id(kernel) + 1, 1 << 40))
    renamed: dict[int, Value] = {}

    def region(source: Region) -> Region:
        ops: list[Op] = []
        for op in source.ops:
            if id(op) in gone:
                for result in op.results:
                    made = zero(result.type, fresh)
                    if made is None:  # memory and fragments have no zero: stays
                        break
                    ops.extend(made)
                    renamed[result.id] = made[-1].result
                else:
                    continue
            operands = tuple(renamed.get(v.id, v) for v in op.operands)
            ops.append(replace(op, operands=operands, regions=tuple(map(region, op.regions))))
        return Region(source.args, tuple(ops))

    return cleaned(replace(program, kernel=with_body(kernel, region(kernel.body))))


def zero(t: Type, fresh: Iterator[int], value: float = 0) -> list[Op] | None:
    """Ops that end with a constant of a type; None where there are no constants."""
    if isinstance(t, DType):
        bits = const_bits(value, t)
        return [Op("const", (), (Value(next(fresh), t),), (("bits", bits),))]
    if isinstance(t, VectorType):
        (scalar,) = zero(t.element, fresh, value) or []
        return [scalar, Op("splat", (scalar.result,), (Value(next(fresh), t),))]
    return None


def cleaned(program: Program) -> Program:
    """Without ops that nothing uses, renumbered; the same where it is malformed."""
    kernel = program.kernel
    try:
        while True:
            used = {v.id for op in walk(kernel.body) for v in op.operands}
            body = _swept(kernel.body, used)
            if body == kernel.body:
                return replace(program, kernel=renumber(kernel))
            kernel = with_body(kernel, body)
    except KeyError:  # a use without a definition: the verifier says so
        return program


def _swept(region: Region, used: set[int]) -> Region:
    ops = []
    for op in region.ops:
        if op.regions:
            op = replace(op, regions=tuple(_swept(r, used) for r in op.regions))
        elif ROWS[op.name].effect in _PURE and not any(v.id in used for v in op.results):
            continue
        ops.append(op)
    return Region(region.args, tuple(ops))


# control flow


def opened(program: Program) -> Iterator[Program]:
    """An if or switch replaced by one of its regions, a loop by one turn of its body."""
    for op in walk(program.kernel.body):
        if op.name in ("if", "switch"):
            for inner in op.regions:
                if inner.ops[-1].name == "yield":
                    yield _spliced(program, op, inner.ops[:-1], {}, inner.ops[-1].operands)
        elif op.name in ("for", "while"):
            start = op.operands if op.name == "while" else (op.operands[0], *op.operands[2:])
            body = op.regions[-1]
            names = dict(zip((v.id for v in body.args), start, strict=True))
            if body.ops[-1].name in ("continue", "break"):
                yield _spliced(program, op, body.ops[:-1], names, body.ops[-1].operands)


def _spliced(
    program: Program,
    old: Op,
    ops: tuple[Op, ...],
    names: Mapping[int, Value],
    results: tuple[Value, ...],
) -> Program:
    """`ops` in place of an op, with values renamed, and `results` in place of its results."""
    renamed: dict[int, Value] = dict(names)

    def new(value: Value) -> Value:
        return renamed.get(value.id, value)

    def rename(op: Op) -> Op:
        regions = tuple(Region(r.args, tuple(map(rename, r.ops))) for r in op.regions)
        return replace(op, operands=tuple(map(new, op.operands)), regions=regions)

    def region(source: Region) -> Region:
        found: list[Op] = []
        for op in source.ops:
            if op is old:
                found.extend(map(rename, ops))
                renamed.update(zip((v.id for v in old.results), map(new, results), strict=False))
                continue
            operands = tuple(map(new, op.operands))
            found.append(replace(op, operands=operands, regions=tuple(map(region, op.regions))))
        return Region(source.args, tuple(found))

    kernel = program.kernel
    return cleaned(replace(program, kernel=with_body(kernel, region(kernel.body))))


# values


def forwarded(program: Program) -> Iterator[Program]:
    """A result replaced by an operand of its type."""
    for op in walk(program.kernel.body):
        if len(op.results) == 1 and not op.regions:
            for operand in op.operands:
                if operand.type == op.result.type and not isinstance(operand.type, MemType):
                    yield _spliced(program, op, (), {}, (operand,))


def constants(program: Program) -> Iterator[Program]:
    """An operand replaced by a constant."""
    for op in walk(program.kernel.body):
        for place, operand in enumerate(op.operands):
            if isinstance(operand.type, DType | VectorType) and not _is_constant(program, operand):
                for value in (0, 1):
                    yield _with_constant(program.kernel, program, op, place, value)


def _is_constant(program: Program, value: Value) -> bool:
    made = _definitions(program.kernel).get(value.id)
    while made is not None and made.name == "splat":
        made = _definitions(program.kernel).get(made.operands[0].id)
    return made is not None and made.name == "const"


_KNOWN: list[tuple[Kernel, dict[int, Op]]] = []


def _definitions(kernel: Kernel) -> dict[int, Op]:
    if not _KNOWN or _KNOWN[0][0] is not kernel:
        _KNOWN[:] = [(kernel, {v.id: op for op in walk(kernel.body) for v in op.results})]
    return _KNOWN[0][1]


def _with_constant(kernel: Kernel, program: Program, old: Op, place: int, value: int) -> Program:
    fresh = iter(range(max_id(kernel) + 1, 1 << 40))

    def region(source: Region) -> Region:
        ops: list[Op] = []
        for op in source.ops:
            if op is old:
                made = zero(op.operands[place].type, fresh, value) or []
                operands = list(op.operands)
                operands[place] = made[-1].result
                ops.extend(made)
                op = replace(op, operands=tuple(operands))
            ops.append(replace(op, regions=tuple(map(region, op.regions))))
        return Region(source.args, tuple(ops))

    return cleaned(replace(program, kernel=with_body(kernel, region(kernel.body))))


# parameters and inputs


def parameters(program: Program) -> Iterator[Program]:
    """Parameters and fault sites that nothing uses left out."""
    kernel = program.kernel
    used = {v.id for op in walk(kernel.body) for v in op.operands}
    kept = [n for n, v in enumerate(kernel.body.args) if v.id in used]
    if len(kept) < len(kernel.params):
        body = Region(tuple(kernel.body.args[n] for n in kept), kernel.body.ops)
        less = replace(kernel, params=tuple(kernel.params[n] for n in kept), body=body)
        inputs = tuple(program.inputs[n] for n in kept)
        yield replace(program, kernel=renumber(less), inputs=inputs)
    if kernel.sites and not any(op.name == "assert" for op in walk(kernel.body)):
        yield replace(program, kernel=replace(kernel, sites=()))


def types(program: Program) -> Iterator[Program]:
    """One element type instead of another, throughout."""
    text = print_kernel(program.kernel)
    for name in ("f64", "bf16", "f16", "i64", "u64", "i16", "u16", "i8", "u8", "u32"):
        if name not in text:
            continue
        for other in ("f32",) if DTYPES[name].is_float else ("i32", "u32"):
            if name == other:
                continue
            try:
                kernel = parse_kernel(_renamed(text, name, other))
            except ValueError:  # a constant or an op that the other type does not have
                continue
            inputs = tuple(_converted(program, kernel))
            yield replace(program, kernel=kernel, inputs=inputs)


def _renamed(text: str, name: str, other: str) -> str:
    import re

    return re.sub(rf"(?<![\w%])(?<!in_){name}(?=\b|x[248]\b)", other, text)


def _converted(program: Program, kernel: Kernel) -> Iterator[Argument]:
    for before, after, value in zip(
        program.kernel.params, kernel.params, program.inputs, strict=True
    ):
        if before.dtype == after.dtype or not isinstance(value, np.ndarray):
            yield value
        elif before.dtype.name == "bf16":
            yield (value.astype(np.uint32) << 16).view(np.float32).astype(after.dtype.storage)
        else:
            with np.errstate(all="ignore"):
                yield value.astype(after.dtype.storage)


def simpler_inputs(program: Program) -> Iterator[Program]:
    """Arrays of zeros, or only half as long; scalars of zero."""
    for n, value in enumerate(program.inputs):
        if not isinstance(value, np.ndarray):
            if value:
                yield _with_input(program, n, type(value)(0))
            continue
        if value.view(np.uint8).any():
            yield _with_input(program, n, np.zeros_like(value))
        if value.size > 1 and program.kernel.params[n].kind == "buffer":
            yield _with_input(program, n, value[: (value.size + 1) // 2].copy())
            yield _with_input(program, n, value[:-1].copy())
        if np.count_nonzero(value) > 1 and value.size <= 16:
            for place in np.flatnonzero(value):
                less = value.copy()
                less[place] = 0
                yield _with_input(program, n, less)


def _with_input(program: Program, n: int, value: Argument) -> Program:
    inputs = list(program.inputs)
    inputs[n] = value
    return replace(program, inputs=tuple(inputs))


SIMPLER = (opened, forwarded, constants, parameters, types, simpler_inputs)
