"""What a target may give for a program: the very bits of the oracle, or within the stated ulp.

An op is exact as DESIGN's numerics say: then all NaNs are equal, and zeros of either sign (the sign
of a zero that `min` or `max` gives is unspecified). The result of any other op may only be moved
and stored; what is stored so may be off by the greatest bound of those ops, and the oracle by its
own error. A target that flushes denormals may give zero for a result below the normal range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import float8
from ..ir.core import Kernel, Op, Region, Value, walk
from ..ir.dtypes import DType
from ..ir.ops import ROWS
from ..ir.text import print_kernel
from .program import Program

# What `ir.maths` loses on a target whose division and root are not correctly rounded.
VULKAN_EXTRA = {
    **dict.fromkeys(("tan", "asin", "tanh"), 2.0),
    **dict.fromkeys(("acos", "atan", "atan2", "acosh", "atanh", "erfc", "hypot"), 3.0),
    "gamma": 6.0,
    "lgamma": 6.0,
}
ROUNDED = frozenset({"div", "sqrt", "fma"})  # exact wherever arithmetic follows IEEE
_MOVES = frozenset({"select", "extract", "insert", "vector", "splat", "shuffle"})
_JOINS = frozenset({"yield", "break", "continue"})
# Of the oracle: functions of f64 are those of numpy and of Python's math, or as good.
_ORACLE = {"f64": 4.0}
_ORACLE_OPS = {"gamma": 12.0}


class UnjudgedError(ValueError):
    """A program that computes with an inexact result: no bound follows for what it stores."""


@dataclass(frozen=True)
class Numerics:
    """What a target promises. exact: the ops, inexact in the table, that are exact there.
    extra: ulp that an op may be off beyond its row. denormals: whether they are kept."""

    exact: frozenset[str] = ROUNDED
    extra: Mapping[str, float] | None = None
    denormals: bool = True


IEEE = Numerics()
GRAPHICS = Numerics(frozenset(), VULKAN_EXTRA, False)


def inexact(name: str) -> bool:
    """Whether the op table gives an op a bound instead of exact bits."""
    row = ROWS[name]
    return row.ulp is not None and not row.exact


def bound(name: str, dtype: DType, numerics: Numerics) -> float:
    """Ulp of the result by which an op may differ from the oracle's."""
    if name in numerics.exact:
        return 0.0
    if dtype.bits == 16:  # computed in f32 and rounded, by both
        return 1.0
    row = ROWS[name]
    wide = dtype.bits == 64
    stated = (row.ulp64 if wide else None) or row.ulp or 0.0
    own = _ORACLE.get(dtype.name, 0.5) if row.ulp64 is not None else 0.0
    if wide:
        own = max(own, _ORACLE_OPS.get(name, 0.0))
    return stated + (numerics.extra or {}).get(name, 0.0) + own


def bounds(kernel: Kernel, numerics: Numerics) -> dict[int, float]:
    """Ulp by which the elements of a parameter may be off; those not named are exact."""
    found: dict[int, float] = {}
    numbers = {v.id: n for n, v in enumerate(kernel.body.args)}
    for op, taints in _tainted(kernel):
        if op.name != "store" or op.operands[0].id not in numbers:
            raise UnjudgedError(f"{op.name} takes the result of {', '.join(sorted(taints))}")
        number = numbers[op.operands[0].id]
        dtype = kernel.params[number].dtype
        most = max(bound(name, dtype, numerics) for name in taints)
        found[number] = max(found.get(number, 0.0), most)
    return found


def _tainted(kernel: Kernel) -> Iterator[tuple[Op, frozenset[str]]]:
    """Ops that end the way of an inexact result, with the ops that it came from."""
    if not any(inexact(op.name) for op in walk(kernel.body)):
        return
    taints: dict[int, frozenset[str]] = {}
    while _spread(kernel.body, taints, None):
        pass
    for op in walk(kernel.body):
        came = frozenset[str]().union(*(taints.get(v.id, frozenset()) for v in op.operands))
        moved = op.name in _MOVES or op.name in _JOINS or bool(op.regions)
        heads = op.operands[: _heads(op)]  # what decides where control goes, or what is chosen
        if (came and not moved) or any(v.id in taints for v in heads):
            yield op, came


def _heads(op: Op) -> int:
    """How many operands of an op decide where control goes, or what is chosen."""
    return {"if": 1, "switch": 1, "for": 2, "select": 1}.get(op.name, 0)


def _spread(region: Region, taints: dict[int, frozenset[str]], loop: Op | None) -> bool:
    """Carry taints on by one walk; whether there is anything new."""
    new = False

    def give(values: Sequence[Value], sources: Sequence[Value]) -> None:
        nonlocal new
        for value, source in zip(values, sources, strict=True):
            came = taints.get(source.id, frozenset())
            if not came <= taints.get(value.id, frozenset()):
                taints[value.id] = taints.get(value.id, frozenset()) | came
                new = True

    for op in region.ops:
        if inexact(op.name):
            if op.result.id not in taints:
                taints[op.result.id], new = frozenset({op.name}), True
        elif op.name in _MOVES:
            for source in op.operands:
                give([op.result], [source])
        elif op.name in ("for", "while"):
            carried = op.operands[2:] if op.name == "for" else op.operands
            for inner in op.regions:
                give(inner.args[len(inner.args) - len(carried) :], carried)
                new |= _spread(inner, taints, op)
                give(op.results, inner.args[len(inner.args) - len(carried) :])
        elif op.regions:
            for inner in op.regions:
                new |= _spread(inner, taints, loop)
                if inner.ops[-1].name == "yield":
                    give(op.results, inner.ops[-1].operands)
        elif op.name in ("break", "continue") and loop is not None:
            give(loop.results, op.operands)
            if op.name == "continue":
                for inner in loop.regions:
                    give(inner.args[len(inner.args) - len(op.operands) :], op.operands)
    return new


@dataclass(frozen=True)
class Difference:
    """An output that differs. rule: `bits`, `ulp` or `zero` (a flushed denormal is allowed)."""

    rule: str
    text: str


def compare(
    program: Program, actual: Sequence[Any], expected: Sequence[Any], numerics: Numerics = IEEE
) -> list[Difference]:
    """The outputs that a target may not give. actual, expected: arguments after the run."""
    allowed = bounds(program.kernel, numerics)
    found = []
    for at in program.outputs:
        param = program.kernel.params[at]
        got, wanted = (_values(np.ravel(x[at]), param.dtype) for x in (actual, expected))
        limit = allowed.get(at, 0.0)
        wrong = _apart(got, wanted, param.dtype, limit, numerics.denormals)
        places = np.flatnonzero(wrong)
        if len(places):
            n = int(places[0])
            within = f" within {limit:g} ulp" if limit else ""
            many = f"({len(places)} of {len(got)} elements)"
            text = f"{param.name}[{n}]: got {got[n]!r}, expected {wanted[n]!r}{within} {many}"
            found.append(Difference("ulp" if limit else "bits", text))
    return found


def check(program: Program, actual: Sequence[Any], expected: Sequence[Any]) -> None:
    """AssertionError with the kernel's text where outputs differ on a target with IEEE floats."""
    found = [difference.text for difference in compare(program, actual, expected)]
    assert not found, "\n".join([*found, print_kernel(program.kernel)])


def _values(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements in their memory form as numbers."""
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array if dtype.computes else float8.decode(array, dtype.name)


def _apart(
    got: np.ndarray, wanted: np.ndarray, dtype: DType, limit: float, denormals: bool
) -> np.ndarray:
    if not dtype.is_float:
        return np.asarray(got != wanted)
    with np.errstate(all="ignore"):
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        if not limit:
            return ~same
        same |= np.abs(steps(got, dtype) - steps(wanted, dtype)) <= limit
        same &= np.isnan(got) == np.isnan(wanted)
        if not denormals:
            tiny = 2.0 ** _LEAST[dtype.name]
            same |= (got == 0) & (np.abs(wanted.astype(np.float64)) <= tiny * (1 + 2.0**-6))
    return ~same


_LEAST = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}  # exponent of the least normal


def steps(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats as their place in the row of all of their type, both zeros at 0 (int64; a difference
    that wraps is still a great one)."""
    if dtype.name == "bf16":
        words = (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.int64)
        top = 1 << 15
    else:
        size = values.dtype.itemsize
        words = np.ascontiguousarray(values).view(f"u{size}").astype(np.uint64).view(np.int64)
        top = 1 << (8 * size - 1)
    if dtype.bits == 64:
        return np.where(words < 0, np.int64(-(2**63)) - words, words)
    return np.where(words >= top, top - words, words)
