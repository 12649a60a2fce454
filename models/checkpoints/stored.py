"""What every kind of checkpoint is once its header is read: named tensors in a mapped file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.dtypes import DType
from ...ir.quantized import BlockFormat, LayoutError
from ..errors import CheckpointError
from ..problems import (
    Extra,
    Geometry,
    Malformed,
    Misshapen,
    Missing,
    NonFinite,
    Problem,
    Truncated,
    WrongForm,
)
from .finite import first_non_finite

Form = DType | BlockFormat
Shape = tuple[int, ...]

# numpy before 2.0 has arrays of up to 32 dimensions.
MAX_DIMS = 32


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as the file has it. form: its element type or block format. shape: of elements,
    outputs before inputs. data: a read-only view of the file: form.storage[shape], for blocks
    uint8[*shape[:-1], bytes of a row]."""

    name: str
    form: Form
    shape: Shape
    data: np.ndarray


@dataclass(frozen=True, slots=True)
class ExpectedTensor:
    """What a model has. shape: of elements. forms: names of the element types and block formats
    that are taken; empty: any. optional: it may be missing."""

    shape: Shape
    forms: tuple[str, ...] = ()
    optional: bool = False


@dataclass(slots=True)
class Entry:
    """A tensor of a header. form: None where it is not supported, then problems say so. offset,
    size: in bytes, from the start of the file."""

    name: str
    form: Form | None
    shape: Shape
    offset: int
    size: int
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself. problems: those of the file as a whole."""

    metadata: Mapping[str, Any]
    entries: Sequence[Entry]
    problems: Sequence[Problem] = ()


class Checkpoint:
    """The tensors of a mapped file. path: the file. metadata: what the file says of itself by key:
    numbers, strings, and arrays as numpy arrays, of strings as tuples."""

    def __init__(self, path: Path, raw: np.ndarray, header: Header) -> None:
        self.path = path
        self.metadata = header.metadata
        self._raw = raw
        self._problems = tuple(header.problems)
        self._entries = {entry.name: entry for entry in header.entries}
        _check_places(header.entries, raw.size)

    def names(self) -> tuple[str, ...]:
        """The names of the tensors, in the order of the file."""
        return tuple(self._entries)

    def tensor(self, name: str) -> StoredTensor:
        """A tensor, nothing copied. CheckpointError where it is missing or damaged."""
        entry = self._entries.get(name)
        if entry is None:
            near = ", ".join(list(self._entries)[:3])
            problem = Missing(name, "a tensor of that name", f"{len(self._entries)}, as {near}")
            raise CheckpointError(self.path, [problem])
        if entry.form is None or entry.problems:
            raise CheckpointError(self.path, entry.problems)
        held = self._raw[entry.offset : entry.offset + entry.size]
        if isinstance(entry.form, DType):
            data = held.view(entry.form.storage).reshape(entry.shape)
        else:
            data = held.reshape(*entry.shape[:-1], entry.form.row_bytes(entry.shape[-1]))
        return StoredTensor(name, entry.form, entry.shape, data)

    def require(
        self, expected: Mapping[str, ExpectedTensor], *, finite: bool = True
    ) -> list[Problem]:
        """All that keeps the file from being the weights of a model, by name of tensor; empty where
        nothing does. finite: look at every value of the float tensors and every scale of the
        packed ones, which reads the whole file, in portions."""
        found = list(self._problems)
        for name, wanted in expected.items():
            if name in self._entries:
                found += self._differences(self._entries[name], wanted, finite)
            elif not wanted.optional:
                found.append(Missing(name, f"a tensor of shape {list(wanted.shape)}", "none"))
        for name, entry in self._entries.items():
            if name not in expected:
                found.append(Extra(name, "no such tensor", f"one of shape {list(entry.shape)}"))
                found += entry.problems
        return found

    def _differences(self, entry: Entry, wanted: ExpectedTensor, finite: bool) -> list[Problem]:
        found = list(entry.problems)
        if entry.shape != wanted.shape:
            found.append(Misshapen(entry.name, str(list(wanted.shape)), str(list(entry.shape))))
        if entry.form is None:
            return found
        if wanted.forms and entry.form.name not in wanted.forms:
            found.append(WrongForm(entry.name, " or ".join(wanted.forms), entry.form.name))
        if finite and not entry.problems:
            stored = self.tensor(entry.name)
            got = first_non_finite(stored.data, stored.form)
            if got:
                found.append(NonFinite(entry.name, "finite values and scales", got))
        return found


def entry(name: str, form: Form, shape: Shape, offset: int, size: int | None = None) -> Entry:
    """A tensor at `offset` whose form is supported; its problems are those of shape and size.
    size: in bytes, where the header says it."""
    if len(shape) > MAX_DIMS or any(extent < 1 for extent in shape):
        got = str(list(shape[:MAX_DIMS]))
        problem: Problem = Malformed(name, f"up to {MAX_DIMS} extents of at least 1", got)
        return Entry(name, form, shape, offset, size or 0, [problem])
    try:
        needed = _bytes_of(form, shape)
    except LayoutError as error:
        wanted, got = str(error.expected), str(error.got)
        problem = Geometry(f"{name}: elements of a row in {form.name}", wanted, got)
        return Entry(name, form, shape, offset, size or 0, [problem])
    if size is not None and size != needed:
        problem = Geometry(name, f"{needed} bytes of {form.name} {list(shape)}", f"{size} bytes")
        return Entry(name, form, shape, offset, size, [problem])
    return Entry(name, form, shape, offset, needed)


def _bytes_of(form: Form, shape: Shape) -> int:
    if isinstance(form, DType):
        return math.prod(shape) * form.bytes
    return math.prod(shape[:-1]) * form.row_bytes(shape[-1] if shape else 0)


def _check_places(entries: Iterable[Entry], size: int) -> None:
    """Note each tensor that ends behind the file, and each that shares bytes with another."""
    placed = sorted((e for e in entries if e.size), key=lambda e: e.offset)
    for e in placed:
        end = e.offset + e.size
        if end > size:
            e.problems.append(Truncated(e.name, f"a file of at least {end} bytes", f"{size} bytes"))
    reaches = placed[:1]
    for before, e in pairwise(placed):
        if before.offset + before.size > reaches[-1].offset + reaches[-1].size:
            reaches.append(before)
        widest = reaches[-1]
        if e.offset < widest.offset + widest.size:
            got = f"byte {e.offset}, which {widest.name} has too"
            e.problems.append(Geometry(e.name, "bytes of its own", got))
