"""The table of operators: which function imports which, from which opset on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from ...ir.graph.array import Array
from .node import Node

Made = Array | np.ndarray
Handler = Callable[[Node], Made | tuple[Made, ...]]
_ROWS: dict[tuple[str, str], dict[int, Handler]] = {}


def op(*names: str, since: int = 1, domain: str = "") -> Callable[[Handler], Handler]:
    """Enter a function for operators of these names from an opset on, until another one is there.
    It gives the outputs in their order, in the graph or, where they are known, on the host; it may
    leave out those at the end that the node does not want."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            rows = _ROWS.setdefault((domain, name), {})
            assert since not in rows, f"two rows for {name} of opset {since}"
            rows[since] = handler
        return handler

    return enter


@cache
def operators() -> Mapping[tuple[str, str], Mapping[int, Handler]]:
    """All functions by domain, name and opset."""
    from . import ops

    for info in pkgutil.iter_modules(ops.__path__):
        importlib.import_module(f".{info.name}", ops.__name__)
    return _ROWS


def find(domain: str, name: str, version: int) -> Handler | None:
    """The function for an operator of an opset."""
    rows = operators().get((domain, name), {})
    fitting = [since for since in rows if since <= version]
    return rows[max(fitting)] if fitting else None
