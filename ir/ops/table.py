"""The op table: one row per op, read by verifier, interpreter, documentation and emitters.

A row says everything about an op that is not particular to a target: its arity, its type rule, its
effects, its meaning in numpy and whether folding may evaluate it. A target lists the rows that it
supports natively (`ir.targets`); legalization follows from that list.

Type rules are functions `(operand types, attrs, wanted result types or None) -> result types`
that raise `OpTypeError` with what was expected and what was found.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import Type

TypeRule = Callable[
    [tuple[Type, ...], Mapping[str, Any], tuple[Type, ...] | None], tuple[Type, ...]
]
Meaning = Callable[..., np.ndarray]


class OpTypeError(TypeError):
    """Operands that an op does not take: what it expects and what it was given."""


class Effect(enum.Enum):
    PURE = "pure"  # may be removed, merged, moved
    ID = "id"  # pure, and the same for one invocation wherever it stands
    READ = "read"  # reads memory
    WRITE = "write"  # writes memory
    ATOMIC = "atomic"  # reads and writes memory as one step
    SYNC = "sync"  # barrier or fence
    CONVERGENT = "convergent"  # pure, but its result depends on which invocations run it together
    ALLOC = "alloc"  # declares an array
    FAULT = "fault"  # sets a bit of the fault bitmap
    DEBUG = "debug"  # acts in the interpreter only; every emitter drops it
    CONTROL = "control"  # owns regions or ends one


@dataclass(frozen=True, slots=True)
class OpRow:
    """One op.

    arity is -1 for a variable number of operands. `meaning` takes numpy arrays, one per operand,
    and the result dtype as keyword `out`; f16 travels as float16, bf16 as float32 that is rounded
    to bf16 by the caller after every op, and an 8-bit float as float32 too. `exact` says that every
    conforming target gives these very bits (DESIGN: Numerics), `fold` that the result is correctly
    rounded and does not depend on the machine, so that the fold pass may evaluate it. `ulp` bounds
    the error of an op that is not exact, for f32, and `ulp64` for f64: over the whole range, with
    correctly rounded div and sqrt (ir.maths says what a target without them adds). Below 0 the
    bounds of lgamma are relative to lgamma(|a|) and 1: near its zeros there only the absolute error
    is small.
    """

    name: str
    arity: int
    rule: TypeRule
    effect: Effect = Effect.PURE
    meaning: Meaning | None = None
    exact: bool = False
    fold: bool = False
    commutative: bool = False
    ulp: float | None = None
    ulp64: float | None = None
    doc: str = ""


ROWS: dict[str, OpRow] = {}


def define(row: OpRow) -> OpRow:
    """Add a row to the table; a second row of one name is a bug."""
    if row.name in ROWS:
        raise ValueError(f"op {row.name} is defined twice")
    ROWS[row.name] = row
    return row


def infer(
    name: str,
    operands: tuple[Type, ...],
    attrs: Mapping[str, Any],
    wanted: tuple[Type, ...] | None = None,
) -> tuple[Type, ...]:
    """The result types of op `name` on these operands. Raises OpTypeError, or KeyError (no op)."""
    return infer_op(name, operands, tuple(attrs.items()), wanted)


@lru_cache(1 << 14)
def infer_op(
    name: str,
    operands: tuple[Type, ...],
    attrs: tuple[tuple[str, Any], ...],
    wanted: tuple[Type, ...] | None = None,
) -> tuple[Type, ...]:
    """`infer` with the attributes as an op has them; those of a constant may be left out.

    Kernels repeat themselves: a build asks the same few hundred questions for ever.
    """
    row = ROWS[name]
    if row.arity >= 0 and len(operands) != row.arity:
        raise OpTypeError(f"{name} takes {row.arity} operands, not {len(operands)}")
    results = row.rule(operands, dict(attrs), wanted)
    if wanted is not None and results != wanted:
        expected = ", ".join(map(str, results))
        got = ", ".join(map(str, wanted))
        raise OpTypeError(f"{name} gives {expected or 'nothing'}, not {got or 'nothing'}")
    return results
