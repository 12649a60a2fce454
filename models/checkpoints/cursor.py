"""Reads a header from front to back and never behind the end of its file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..errors import CheckpointFormatError
from ..problems import Malformed, Problem, Truncated


class Cursor:
    """A place in the bytes of a file. what: the part that is read, for errors."""

    def __init__(self, path: Path, raw: np.ndarray) -> None:
        self.path, self.raw = path, raw
        self.bytes = raw.data
        self.at = 0
        self.what = "header"

    def fail(self, problem: Problem) -> NoReturn:
        raise CheckpointFormatError(self.path, [problem])

    def malformed(self, expected: str, got: object) -> NoReturn:
        self.fail(Malformed(f"{self.what} at byte {self.at}", expected, str(got)))

    def room(self, size: int) -> None:
        """Refuse to go on where fewer than `size` bytes are left."""
        left = len(self.bytes) - self.at
        if size > left:
            told = f"{self.what} at byte {self.at}"
            self.fail(Truncated(told, f"at least {size} more bytes", f"{left} bytes"))

    def number(self, code: str) -> Any:
        """The number that a letter of `struct` stands for."""
        size = struct.calcsize(f"<{code}")
        self.room(size)
        (value,) = struct.unpack_from(f"<{code}", self.bytes, self.at)
        self.at += size
        return value

    def numbers(self, dtype: str, count: int) -> np.ndarray:
        """A read-only view of `count` numbers."""
        size = count * np.dtype(dtype).itemsize
        self.room(size)
        found = self.raw[self.at : self.at + size].view(dtype)
        self.at += size
        return found

    def strings(self, count: int) -> tuple[str, ...]:
        """`count` strings, each of a u64 length and as many bytes of UTF-8."""
        self.room(8 * count)
        found, data, end, at = [], self.bytes, len(self.bytes), self.at
        for _ in range(count):
            start = at + 8
            self.at = at
            at = start + int.from_bytes(data[at:start], "little")
            if at > end:
                self.room(at - self.at)
            try:
                found.append(str(data[start:at], "utf-8"))
            except UnicodeDecodeError as error:
                self.malformed("UTF-8", error)
        self.at = at
        return tuple(found)

    def string(self) -> str:
        return self.strings(1)[0]
