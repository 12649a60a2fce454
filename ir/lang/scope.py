"""What a function sees outside itself: its closure and its module, as kernel constants."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from ..dtypes import DType, FragmentType, VectorType
from .values import Entry


class Scope:
    """Names from the closure and the globals of a Python function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        assert isinstance(function, FunctionType)
        self._globals = function.__globals__
        self._cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )

    def lookup(self, name: str) -> Entry:
        """The object of that name; KeyError."""
        if name in self._cells:
            try:
                return constant(self._cells[name].cell_contents)
            except ValueError:  # the variable of the enclosing function is not set yet
                raise KeyError(name) from None
        return constant(self._globals[name])

    def names(self) -> set[str]:
        """Every name that could be meant."""
        return {n for n in (*self._cells, *self._globals) if not n.startswith("__")}


def constant(value: Any) -> Entry:
    """A Python object as an entry: numpy scalars become numbers, lists become tuples."""
    if isinstance(value, list | tuple):
        return tuple(constant(v) for v in value)
    plain = isinstance(value, ModuleType | DType | VectorType | FragmentType | type)
    if not plain and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value
