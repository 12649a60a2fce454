"""A tensor's place in a plan: elements side by side within a storage."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.dtypes import DTYPES, DType
from ..ir.graph.types import TensorType
from ..ir.plan import Span

WORDS = {1: "u8", 2: "u16", 4: "u32"}  # what kernels that move bits take elements for


@dataclass(frozen=True, slots=True)
class View:
    """A tensor of `type` from element `start` (of its type) of a storage on."""

    storage: int
    start: int
    type: TensorType

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def span(self) -> Span:
        return Span(self.storage, self.start, self.type.size, self.type.dtype)

    def reshaped(self, *shape: int) -> View:
        """The same elements in another shape of as many."""
        return replace(self, type=self.type.with_shape(shape))

    def seen_as(self, name: str) -> View:
        """The same bytes as elements of another type; along the last dimension where their widths
        differ."""
        dtype = DTYPES[name]
        if dtype.bytes == self.dtype.bytes:
            return replace(self, type=self.type.with_dtype(dtype))
        have = self.dtype.bytes
        columns, rest = divmod(self.shape[-1] * have, dtype.bytes)
        start, odd = divmod(self.start * have, dtype.bytes)
        assert (rest, odd) == (0, 0), f"{self.type} is no {name}"
        shape = (*self.shape[:-1], columns)
        return View(self.storage, start, TensorType(dtype, shape))

    @property
    def words(self) -> View:
        """As bits of the same width, for kernels that move them."""
        return self.seen_as(WORDS[self.dtype.bytes])

    def part(self, start: int, shape: tuple[int, ...]) -> View:
        """Elements from `start` on, of this view."""
        return View(self.storage, self.start + start, self.type.with_shape(shape))
