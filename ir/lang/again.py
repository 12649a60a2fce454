"""Device functions called again on arguments of the same kinds: what the first call gave is copied.

A call that gives nothing but ops and a result is kept by its function and its arguments, as far as
they are known now: of a run-time value that is its type. To copy an op takes a tenth of the time
that tracing it takes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core import Op, Region, Value, replaced
from ..dtypes import DType, FragmentType, MemType, Space, VectorType
from .budget import spend
from .memory import make_array, name_array
from .surface import Intrinsic
from .values import Entry, Memory, leaves, rebuild

if TYPE_CHECKING:
    from .decorator import DeviceFunction
    from .tracer import Tracer

Key = tuple[object, ...]

_PLAIN = frozenset({bool, int, str, type(None), DType, VectorType, FragmentType, Intrinsic})


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was traced: its run-time arguments, the arrays that it declares, its ops, its
    result, and how many ops that took."""

    args: list[Value]
    arrays: tuple[Op, ...]
    ops: tuple[Op, ...]
    result: Entry
    work: int


class Begun:
    """A call that is being traced, to be kept."""

    def __init__(self, t: Tracer, key: Key, args: list[Value]) -> None:
        self.key, self.args = key, args
        self.ops, self.arrays, self.work = len(t.builder.ops), len(t.allocs), t.work
        self.sites, self.state = len(t.sites), len(t.state)
        self.first, self.asked = t.builder.next_id, len(t.asked)

    def keep(self, t: Tracer, result: Entry) -> None:
        """Note the call, now that its result is known, if it is one that can be copied.

        Not so where it leaves cells of register arrays behind, fault sites, which the calls around
        it tell apart, or private arrays, which are cleared where a loop comes by again; nor where
        it matters how a value was made that comes from outside.
        """
        arrays = tuple(t.allocs[self.arrays :])
        plain = len(t.state) == self.state and len(t.sites) == self.sites and not t.dead
        plain = plain and all(number >= self.first for number in t.asked[self.asked :])
        if plain and all(map(_shared, arrays)) and all(_ends(t, e) for e in leaves(result)):
            ops = tuple(t.builder.ops[self.ops :])
            t.calls[self.key] = Call(self.args, arrays, ops, result, t.work - self.work)


def _shared(array: Op) -> bool:
    memory = array.results[0].type
    return isinstance(memory, MemType) and memory.space is Space.WORKGROUP


def _ends(t: Tracer, leaf: Entry) -> bool:
    """Whether a part of a result is all that there is to it."""
    kind = type(leaf)
    return leaf.id not in t.weak if kind is Value else kind in _PLAIN or kind is float


def key_of(
    t: Tracer, function: DeviceFunction, args: Iterable[Entry]
) -> tuple[Key, list[Value]] | None:
    """What a call is kept by, and its run-time arguments; None for a call that is not kept."""
    if t.probing or t.frame.pinned:
        return None
    parts: list[object] = [function]
    values: list[Value] = []
    for entry in args:
        if not _tell(t, entry, parts, values):
            return None
    return tuple(parts), values


def _tell(t: Tracer, entry: Entry, parts: list[object], values: list[Value]) -> bool:
    """Append what tells an argument from others; False where that is not all there is to it."""
    kind = type(entry)
    if kind is Value:
        if entry.id in t.weak:
            return False
        # Where branches meet it matters whether two arguments are one value.
        numbers = [v.id for v in values]
        parts += (entry.type, numbers.index(entry.id) if entry.id in numbers else len(values))
        values.append(entry)
    elif kind in _PLAIN:
        parts += (kind, entry)
    elif kind is float:
        parts += (kind, entry.hex())  # which tells zeros apart, and not NaNs
    elif kind is Memory:
        parts += (entry.value.id, entry.shape, entry.swizzled)
    elif kind is tuple:
        parts += (kind, len(entry))
        return all(_tell(t, part, parts, values) for part in entry)
    elif kind is type(parts[0]):  # a device function
        parts.append(entry)
    else:
        return False
    return True


def copied(t: Tracer, node: ast.AST, call: Call, args: list[Value]) -> Entry:
    """Append the ops of a call that was traced before, on other arguments; its result."""
    t.count(node, call.work)
    spend(t, node, call.work)
    new = {old.id: value for old, value in zip(call.args, args, strict=True)}
    for op in call.arrays:
        array = op.results[0]
        memory = array.type
        assert isinstance(memory, MemType)
        made = make_array(t, node, memory.space, memory.element, memory.count)
        t.allocs[-1] = replace(t.allocs[-1], loc=op.loc)
        new[array.id] = name_array(t, made, array.hint).value
    t.builder.ops.extend(copies(t, call.ops, new))
    found = [new.get(e.id, e) if type(e) is Value else e for e in leaves(call.result)]
    return rebuild(call.result, found)


def copies(t: Tracer, ops: Iterable[Op], new: dict[int, Value]) -> list[Op]:
    """Ops again, with values of their own, which are noted by the numbers of the old ones."""
    made = []
    for op in ops:
        operands = replaced(op.operands, new)
        regions = tuple([_copy(t, r, new) for r in op.regions]) if op.regions else ()
        results = _fresh(t, op.results, new) if op.results else ()
        made.append(Op(op.name, operands, results, op.attrs, regions, op.loc))
    return made


def _copy(t: Tracer, region: Region, new: dict[int, Value]) -> Region:
    args = _fresh(t, region.args, new)
    return Region(args, tuple(copies(t, region.ops, new)))


def _fresh(t: Tracer, values: tuple[Value, ...], new: dict[int, Value]) -> tuple[Value, ...]:
    builder = t.builder
    if len(values) == 1:
        (old,) = values
        new[old.id] = value = builder.value(old.type, old.hint)
        return (value,)
    made = tuple([builder.value(v.type, v.hint) for v in values])
    for old, value in zip(values, made, strict=True):
        new[old.id] = value
    return made
