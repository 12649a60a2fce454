"""The constructs that are open at one point of an emission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.core import Value


@dataclass(slots=True)
class Join:
    """A block to come, and the edges to it so far: where each comes from and what it brings."""

    label: str
    edges: list[tuple[str, list[list[str]]]] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """What `break` and `continue` go to."""

    out: Join
    latch: Join


@dataclass(slots=True)
class Flow:
    """Open selections and loops, innermost last.

    whiles: of those whose condition is being written, the label of the body and the carried
    values.
    """

    selections: list[Join] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    whiles: list[tuple[str, Sequence[Value]]] = field(default_factory=list)
