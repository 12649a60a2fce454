"""Workgroup memory: one slab for all workgroups of a block, with a record of written bytes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from . import memory
from .errors import OutOfBounds, UnwrittenLds

Array = np.ndarray[Any, Any]


class Watch(Protocol):
    """What looks for races: kind `load`, `store` or `atomic`, offsets int64[k] into the slab."""

    def note(self, kind: str, offset: Array, size: int) -> None: ...


class Lds:
    """`size` bytes for each of `groups` workgroups; contents start as garbage."""

    watch: Watch | None = None

    def __init__(self, groups: int, size: int) -> None:
        self.size = size
        self.stride = (size + 15) // 16 * 16
        self.bytes = np.full(groups * self.stride + 16, 0xA5, np.uint8)
        self.written = np.zeros(groups * self.stride + 16, np.uint8)

    def _offset(self, group: Array, address: Array, size: int) -> Array:
        """int64[k]: byte offsets into the slab of accesses at `address` (int64[k])."""
        if len(address) and (int(address.min()) < 0 or int(address.max()) + size > self.size):
            wrong = address[(address < 0) | (address + size > self.size)][0]
            raise OutOfBounds(
                f"LDS access of {size} bytes at {int(wrong)}: the workgroup has {self.size} bytes"
            )
        return group * self.stride + address

    def load(self, group: Array, address: Array, size: int) -> Array:
        """uint32[k, ceil(size/4)] at byte `address` of workgroup `group` (int64[k] each)."""
        offset = self._offset(group, address, size)
        self._check_written(offset, address, size)
        self._note("load", offset, size)
        return memory.gather(self.bytes, offset, size)

    def _check_written(self, offset: Array, address: Array, size: int) -> None:
        full = 0xFFFFFFFF if size >= 4 else (1 << 8 * size) - 1
        good = memory.gather(self.written, offset, size) == full
        if not good.all():
            at = int(address[np.nonzero(~good.all(axis=1))[0][0]])
            raise UnwrittenLds(f"LDS read of {size} bytes at {at} that nothing has written")

    def _note(self, kind: str, offset: Array, size: int) -> None:
        if self.watch is not None:
            self.watch.note(kind, offset, size)

    def store(self, group: Array, address: Array, size: int, words: Array) -> None:
        offset = self._offset(group, address, size)
        self._note("store", offset, size)
        memory.scatter(self.bytes, offset, size, words)
        memory.scatter(self.written, offset, size, np.full_like(words, 0xFFFFFFFF))

    def atomic(self, group: Array, address: Array, size: int) -> tuple[Array, Array]:
        """(slab as uint32 or uint64, index of each access): for a read-modify-write."""
        offset = self._offset(group, address, size)
        if (offset % size).any():
            raise OutOfBounds(f"LDS atomic of {size} bytes that is not aligned")
        self._check_written(offset, address, size)
        self._note("atomic", offset, size)
        return memory.typed(self.bytes, size), offset // size
