"""Global memory: the process's own bytes at real addresses, behind a list of allocations.

One numpy view spans all allocations, so that a gather over several of them is one index
operation; every access is checked against the list first.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .errors import OutOfBounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Allocation:
    address: int
    size: int
    name: str
    writable: bool

    @property
    def end(self) -> int:
        return self.address + self.size


class Memory:
    """The allocations that a dispatch may touch."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self._bases: list[int] = []
        self._span: tuple[int, Array] | None = None
        self._kept: list[object] = []

    def add(self, address: int, size: int, name: str, writable: bool = True) -> None:
        """Register `size` bytes at a real `address`; whoever owns them keeps them alive."""
        if size <= 0:
            return
        at = bisect_right(self._bases, address)
        new = Allocation(address, size, name, writable)
        for other in self.allocations[max(at - 1, 0) : at + 1]:
            if other.address < new.end and new.address < other.end:
                raise ValueError(f"allocations {name} and {other.name} overlap")
        self.allocations.insert(at, new)
        self._bases.insert(at, address)
        self._span = None

    def add_array(self, array: Array, name: str, writable: bool = True) -> int:
        """Register a numpy array and keep it alive; its address."""
        self._kept.append(array)
        self.add(array.ctypes.data, array.nbytes, name, writable)
        return array.ctypes.data

    def remove(self, address: int) -> None:
        at = self._bases.index(address)
        del self._bases[at], self.allocations[at]
        self._span = None

    def _find(self, address: int) -> Allocation | None:
        at = bisect_right(self._bases, address) - 1
        return self.allocations[at] if at >= 0 else None

    def _view(self) -> tuple[int, Array]:
        """(base, uint8 view from the lowest to the highest allocation); base is 16-aligned."""
        if self._span is None:
            base = self._bases[0] & ~15
            size = max(a.end for a in self.allocations) - base
            raw = (ctypes.c_uint8 * size).from_address(base)
            self._span = base, np.frombuffer(raw, np.uint8)
        return self._span

    def check(self, addresses: Array, size: int, write: bool) -> None:
        """Every access of `size` bytes at `addresses` (uint64[k], k > 0) lies in an allocation."""
        low, high = int(addresses.min()), int(addresses.max()) + size
        a = self._find(low)
        if a is not None and low >= a.address and high <= a.end:
            if write and not a.writable:
                raise OutOfBounds(f"store of {size} bytes to {a.name}, which is read-only")
            return
        bases = np.array(self._bases, np.uint64)
        ends = np.array([x.end for x in self.allocations], np.uint64)
        at = np.searchsorted(bases, addresses, side="right").astype(np.int64) - 1
        wrong = (at < 0) | (addresses + np.uint64(size) > ends[np.maximum(at, 0)])
        if wrong.any():
            raise OutOfBounds(self._describe(int(addresses[wrong][0]), size, write))
        if write:
            for index in np.unique(at):
                if not self.allocations[index].writable:
                    raise OutOfBounds(f"store to {self.allocations[index].name}: read-only")

    def _describe(self, address: int, size: int, write: bool) -> str:
        what = f"{'store to' if write else 'load from'} {address:#x} ({size} bytes)"
        near = self._find(address)
        if near is None:
            return f"{what}, below every allocation"
        return (
            f"{what}: the nearest allocation below is {near.name}, {near.size} bytes at"
            f" {near.address:#x}; the access ends {address + size - near.end} bytes behind its end"
        )

    def load(self, addresses: Array, size: int) -> Array:
        """Bytes at `addresses` as words: uint32[k, ceil(size/4)], the upper bytes of less are 0."""
        self.check(addresses, size, write=False)
        base, view = self._view()
        offset = (addresses - np.uint64(base)).astype(np.int64)
        return gather(view, offset, size)

    def store(self, addresses: Array, size: int, words: Array) -> None:
        """Write the low `size` bytes of `words` (uint32[k, n]); of equal addresses one wins."""
        self.check(addresses, size, write=True)
        base, view = self._view()
        scatter(view, (addresses - np.uint64(base)).astype(np.int64), size, words)

    def atomic(self, addresses: Array, size: int) -> tuple[Array, Array]:
        """(view as uint32 or uint64, index of each address) for a read-modify-write."""
        self.check(addresses, size, write=True)
        base, view = self._view()
        offset = (addresses - np.uint64(base)).astype(np.int64)
        if (offset % size).any():
            raise OutOfBounds(f"atomic access of {size} bytes that is not aligned")
        return typed(view, size), offset // size


def typed(view: Array, size: int) -> Array:
    """A uint8 view (16-aligned) as words of 4 or 8 bytes, the odd tail left off."""
    return view[: view.nbytes // size * size].view(np.uint32 if size == 4 else np.uint64)


def _rows(view: Array, unit: int, count: int) -> Array:
    """Overlapping rows of `count` units of `unit` bytes, one row a unit: [n, count]."""
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[unit]
    flat = view[: view.nbytes // unit * unit].view(dtype)
    n = max(flat.size - count + 1, 0)
    return as_strided(flat, (n, count), (unit, unit))


def _unit(offset: Array, size: int) -> int:
    """The widest unit that divides the size and every offset."""
    if size % 4 == 0 and not (offset & 3).any():
        return 4
    return 2 if size % 2 == 0 and not (offset & 1).any() else 1


def gather(view: Array, offset: Array, size: int) -> Array:
    """uint32[k, ceil(size/4)] from byte offsets int64[k] into a uint8 view."""
    unit = _unit(offset, size)
    if unit == 4:
        if size == 4:
            return typed(view, 4)[offset >> 2][:, None]
        return _rows(view, 4, size // 4)[offset >> 2]
    got = _rows(view, unit, size // unit)[offset // unit]
    if size % 4 == 0:
        return np.ascontiguousarray(got).view(np.uint32)
    padded = np.zeros((len(offset), 4), np.uint8)
    padded[:, :size] = got.view(np.uint8)
    return padded.view(np.uint32)


def scatter(view: Array, offset: Array, size: int, words: Array) -> None:
    """Write the low `size` bytes of uint32[k, n] at byte offsets into a uint8 view."""
    unit = _unit(offset, size)
    words = np.ascontiguousarray(words)
    if unit == 4 and size == 4:
        typed(view, 4)[offset >> 2] = words[:, 0]
        return
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[unit]
    data = words.view(dtype)[:, : size // unit]
    _rows(view, unit, size // unit)[offset // unit] = data
