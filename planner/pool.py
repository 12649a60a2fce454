"""What all entries of a plan share: storages by name, literals, and what the load makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..ir.dtypes import DTYPES
from ..ir.graph.core import Origin, Source
from ..ir.graph.types import TensorType
from ..ir.plan import Launch, Role, Storage
from .view import View

_ROLES = {
    Origin.INPUT: Role.INPUT,
    Origin.SLOT: Role.INPUT,
    Origin.CONSTANT: Role.WEIGHT,
    Origin.STATE: Role.STATE,
}
_SHARED = (Role.WEIGHT, Role.STATE)
_FIXED = (Role.WEIGHT, Role.LITERAL, Role.CONSTANT)


class Pool:
    """The storages of a plan as they grow, and its load."""

    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.load: list[Launch] = []
        self.made: dict[object, tuple[View, ...]] = {}  # by the load
        self.loading = False
        self._named: dict[tuple[Role, str], View] = {}
        self._literals: dict[tuple[TensorType, bytes], View] = {}

    def add(self, role: Role, type_: TensorType, name: str = "", data: bytes | None = None) -> View:
        """A storage of its own for a tensor."""
        shape = type_.shape if role is Role.WEIGHT else ()
        self.storages.append(Storage(role, type_.dtype, type_.size, name, shape, data))
        return View(len(self.storages) - 1, 0, type_)

    def source(self, source: Source) -> View:
        """Of a graph: weights and states by their names, the same for all entries. ValueError:
        another entry has one of the name and of another type."""
        type_ = source.tensor.type
        if source.data is not None:
            return self.literal(type_, source.data)
        role = _ROLES[source.origin]
        if role not in _SHARED:
            return self.add(role, type_, source.name)
        view = self._named.get((role, source.name))
        if view is None:
            view = self._named[role, source.name] = self.add(role, type_, source.name)
        if view.type != type_:
            raise ValueError(f"{role.value} {source.name!r} is {view.type}, and elsewhere {type_}")
        return view

    def literal(self, type_: TensorType, data: bytes) -> View:
        """Bytes that the plan holds; equal ones once."""
        key = type_, data
        if key not in self._literals:
            self._literals[key] = self.add(Role.LITERAL, type_, "", data)
        return self._literals[key]

    def array(self, values: np.ndarray, name: str) -> View:
        """A literal of numbers that are of an element type already."""
        dtype = DTYPES[name]
        stored = np.ascontiguousarray(values, dtype.storage)
        little = stored.astype(stored.dtype.newbyteorder("<"))
        return self.literal(TensorType(dtype, stored.shape), little.tobytes())

    def fixed(self, view: View) -> bool:
        """Whether it never changes once the load is done."""
        return self.storages[view.storage].role in _FIXED

    @contextmanager
    def of_load(self) -> Iterator[None]:
        """Launches and storages go to the load."""
        before, self.loading = self.loading, True
        try:
            yield
        finally:
            self.loading = before
