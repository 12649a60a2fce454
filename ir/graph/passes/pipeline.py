"""Passes in their order. The strongest effect of those that changed something is the program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..core import Graph
from ..verify import verify
from .canonical import canonicalize
from .cse import merge_equal
from .dce import remove_dead
from .fold import fold_constants
from .numerics import Numerics, NumericsError


@dataclass(frozen=True, slots=True)
class Pass:
    """A function of graphs that gives its argument itself where it changes nothing."""

    name: str
    function: Callable[[Graph], Graph]
    numerics: Numerics = Numerics.EXACT


EXACT = (
    Pass("canonicalize", canonicalize),
    Pass("fold_constants", fold_constants),
    Pass("merge_equal", merge_equal),
    Pass("remove_dead", remove_dead),
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph after passes, what they did to its numbers, and which of them changed it."""

    graph: Graph
    numerics: Numerics
    applied: tuple[str, ...]


def run(
    graph: Graph, passes: Sequence[Pass] = EXACT, allowed: Numerics = Numerics.EXACT
) -> Rewritten:
    """The passes one after the other, each result verified. Raises NumericsError where one that
    changes the graph does more than is allowed."""
    numerics, applied = Numerics.EXACT, []
    for one in passes:
        after = one.function(graph)
        if after is graph:
            continue
        if one.numerics > allowed:
            raise NumericsError(one.name, allowed, one.numerics)
        verify(after)
        graph, numerics = after, max(numerics, one.numerics)
        applied.append(one.name)
    return Rewritten(graph, numerics, tuple(applied))
