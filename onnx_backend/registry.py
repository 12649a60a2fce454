"""The table of operators: which function computes which."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

from .machine import Machine
from .node import Node
from .tensor import Tensor

Handler = Callable[[Machine, Node], Tensor | tuple[Tensor | None, ...]]
_ROWS: dict[tuple[str, str], Handler] = {}


def op(*names: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Enter a function for operators of these names. It gets the machine and the node, and gives
    the outputs in their order; it may leave out those at the end that the node does not want."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            assert (domain, name) not in _ROWS, f"two rows for {name}"
            _ROWS[domain, name] = handler
        return handler

    return enter


@cache
def operators() -> Mapping[tuple[str, str], Handler]:
    """Every operator that there is a function for, by domain and name."""
    from . import ops

    for info in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f".{info.name}", ops.__name__)
    return _ROWS
