"""Activations: the kernel and the device functions that are being inlined, with their loops."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..core import Loc
from .liveness import Liveness, Names
from .source import Source
from .values import Entry, Slot

Edge = tuple[str, ast.AST, dict[Slot, Entry]]  # break or continue, where, with what state


@dataclass(eq=False)
class Exit:
    """What `break` and `continue` of one loop do: jumps of IR, or flags where it is unrolled."""

    unrolled: int | None = None  # number of the flag slots
    edges: list[Edge] = field(default_factory=list)
    live: frozenset[str] = frozenset()  # behind an unrolled loop and at its head
    take: Callable[[str, ast.AST], None] | None = None  # emits an edge; None while probing


@dataclass(eq=False)
class Frame:
    """An activation: the kernel, or a device function that is being inlined."""

    number: int
    name: str
    source: Source
    lookup: Callable[[str], Entry]  # names from outside the function; KeyError
    outside: Callable[[], set[str]]  # those names, for suggestions
    device: bool = False
    pinned: Loc | None = None  # library functions show the place of their call
    function: Any = None
    exits: list[Exit] = field(default_factory=list)
    call: ast.AST | None = None  # the call that is being inlined

    @property
    def live(self) -> Liveness:
        return self.source.liveness

    @property
    def locals(self) -> Names:
        return self.source.locals
