"""Vectors that stay whole: what loads, stores, matrix instructions and words take as one value.

A vector is taken apart, or put together, where that is first asked for; what is made in a region is
at hand within it only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...ir.core import Kernel, Op, Value, walk
from ...ir.dtypes import Type, VectorType, bool_, element_of, lanes_of
from ..llvm.text import Function
from .joins import hide

# Ops that take vectors whole, or hand them on.
_WHOLE = frozenset(("store", "amd_mma", "shuffle", "yield", "continue", "break", "condition"))


class Vectors:
    """Values by their numbers: their components, and vectors of LLVM by type."""

    def __init__(self, f: Function, parts: dict[int, list[str]]) -> None:
        self.f, self.apart = f, parts
        self.whole: dict[int, dict[str, str]] = {}
        self._made: list[tuple[int, str]] = []  # value, type of the vector; "" for components

    def define(self, value: Value, group: str, name: str) -> None:
        """A value is a vector of type `group`."""
        self.apart.pop(value.id, None)
        self.whole[value.id] = {group: name}

    def parts(self, value: Value, group: str) -> list[str]:
        """The components of a value, which is a vector of type `group`."""
        found = self.apart.get(value.id)
        if found is None:
            found = self.apart[value.id] = spread(self.f, group, self.vector(value, group))
            self._made.append((value.id, ""))
        return found

    def vector(self, value: Value, group: str) -> str:
        """A value as a vector of type `group`: its components, or all its bits."""
        known = self.whole.setdefault(value.id, {})
        if group not in known:
            if known:
                given, name = next(iter(known.items()))
                made = self.f.value(f"bitcast {given} {name} to {group}")
            else:
                made = gather(self.f, group, self.apart[value.id])
            self._keep(value, group, made)
        return known[group]

    def cast(self, value: Value, group: str, wanted: str) -> str:
        """The bits of a value, a vector of type `group`, as another type."""
        self.vector(value, group)
        return self.vector(value, wanted)

    def opaque(self, value: Value, group: str) -> str:
        """As `vector`, but LLVM does not know a constant. A phi of a constant it would take apart,
        and with it all phis that the same vectors reach."""
        name = self.vector(value, group)
        if name.startswith("%"):
            return name
        known, key = self.whole[value.id], f"opaque {group}"
        if key not in known:
            self._keep(value, key, hide(self.f, group, name))
        return known[key]

    def _keep(self, value: Value, group: str, name: str) -> None:
        self.whole[value.id][group] = name
        self._made.append((value.id, group))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Around what is written of a region."""
        start = len(self._made)
        yield
        while len(self._made) > start:
            number, group = self._made.pop()
            if group:
                self.whole.get(number, {}).pop(group, None)
            else:
                self.apart.pop(number, None)


def whole_types(kernel: Kernel) -> set[Type]:
    """Types of the vectors that joins have whole: those of the sums of matrix instructions, and
    those of which nothing else takes what comes out of a join than stores, words and joins."""
    joined: dict[int, Type] = {}
    sums = set()
    for op in walk(kernel.body):
        if op.regions:
            values = [*op.results, *[v for r in op.regions for v in r.args]]
            joined.update({v.id: v.type for v in values if isinstance(v.type, VectorType)})
        elif op.name == "amd_mma":
            sums.add(op.result.type)
    found = {t for t in joined.values() if _fills_words(t)} - sums
    if found:
        for op in walk(kernel.body):
            if op.regions or op.name in _WHOLE or _reshapes(op):
                continue
            found.difference_update([v.type for v in op.operands if v.id in joined])
    return (sums | found) - _early(kernel)


def _early(kernel: Kernel) -> set[Type]:
    """Types of the sums of MFMA that a loop carries and takes apart in its next turn.

    The hardware does not wait for a sum that is read soon behind its product, so LLVM counts the
    instructions between; but it counts a branch out of the loop, which is behind the one back, as
    if that were executed on the way back (release 22). Taken apart, a sum is read before both.
    """
    made: set[int] = set()  # sums, and what joins make of them
    carried: set[Type] = set()
    args: dict[int, Type] = {}
    ops = list(walk(kernel.body))
    for op in ops:
        if op.name == "amd_mma" and op.attr("family") == "mfma":
            made.add(op.result.id)
        args.update({v.id: v.type for r in op.regions for v in r.args})
    if not made:
        return carried
    for op in reversed(ops):  # inner ones first
        for n, v in enumerate(op.results if op.name == "if" else ()):
            yields = [r.terminator for r in op.regions if r.terminator.name == "yield"]
            if any(end.operands[n].id in made for end in yields):
                made.add(v.id)
    for op in ops:
        if op.name == "continue":
            carried.update([v.type for v in op.operands if v.id in made])
    apart = [op for op in ops if not op.regions and op.name not in _WHOLE]
    return carried & {args[v.id] for op in apart for v in op.operands if v.id in args}


def _fills_words(t: Type) -> bool:
    element = element_of(t)
    return element != bool_ and element.bits * lanes_of(t) >= 32


def _reshapes(op: Op) -> bool:
    return op.name == "bitcast" and lanes_of(op.result.type) != lanes_of(op.operands[0].type)


def gather(f: Function, group: str, parts: Sequence[str]) -> str:
    """Components as a vector of type `group`."""
    element = component_of(group)
    if not any(part.startswith("%") for part in parts):
        return f"<{', '.join(f'{element} {part}' for part in parts)}>"
    whole = "poison"
    for n, part in enumerate(parts):
        if part != "poison":
            whole = f.value(f"insertelement {group} {whole}, {element} {part}, i32 {n}")
    return whole


def spread(f: Function, group: str, whole: str, step: int = 1) -> list[str]:
    """Every so many components of a vector of type `group`."""
    count = int(group[1:].partition(" ")[0])
    return [f.value(f"extractelement {group} {whole}, i32 {n}") for n in range(0, count, step)]


def component_of(group: str) -> str:
    """The type of a component of a vector type."""
    return group[:-1].partition(" x ")[2]
