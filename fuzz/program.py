"""A random program: a kernel with its inputs and grid, and its form as a file.

The file is the kernel's text form (`ir.text`) behind lines that start with `#`:
    # what it showed, in free words
    #: {"variant": 0, "grid": [2, 1, 1], "inputs": [[count, "base64 of compressed bytes"], 17]}
An input is a buffer or slot, by its number of elements and its bytes, or the bits of a scalar.
"""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.core import Kernel, Param, bits_float
from ..ir.interface import const_bits
from ..ir.text import ParseError, parse_kernel, print_kernel
from ..ir.verify import VerifyError, verify

Argument = np.ndarray | int | float | bool
Grid = tuple[int, int, int]
_FACTS = "#: "
_MOST_GROUPS = (1 << 32) - 1
_DAMAGE = (ValueError, LookupError, TypeError, OverflowError, RecursionError, MemoryError)


class CaseError(ValueError):
    """A file that holds no program: which file, and what is wrong with it."""


@dataclass(frozen=True)
class Program:
    """A kernel, one input per parameter (arrays in the memory form of their type) and the grid.
    variant: which of a target's several forms of it is meant (see `targets`)."""

    kernel: Kernel
    inputs: tuple[Argument, ...]
    grid: Grid
    variant: int = 0

    def arguments(self) -> list[Any]:
        """Fresh copies of the arguments."""
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.inputs]

    @property
    def outputs(self) -> tuple[int, ...]:
        """Positions of the arguments that it writes."""
        pairs = enumerate(self.kernel.params)
        return tuple(n for n, p in pairs if p.kind == "buffer" and p.access.writes)


def to_text(program: Program, remarks: Sequence[str] = ()) -> str:
    """The file of a program."""
    pairs = zip(program.kernel.params, program.inputs, strict=True)
    inputs = [_packed(p, a) for p, a in pairs]
    facts = {"variant": program.variant, "grid": list(program.grid), "inputs": inputs}
    lines = [f"# {line}" for remark in remarks for line in remark.splitlines()]
    return "\n".join([*lines, _FACTS + json.dumps(facts), print_kernel(program.kernel)])


def from_text(text: str, where: str = "<case>") -> Program:
    """Read the file of a program; CaseError."""
    lines = text.split("\n")
    head = [line for line in lines if line.startswith("#")]
    facts = [line.removeprefix(_FACTS) for line in head if line.startswith(_FACTS)]
    if len(facts) != 1:
        raise CaseError(f"{where}: expected one line that starts with {_FACTS!r}, found {facts}")
    try:
        known = json.loads(facts[0])
        kernel = parse_kernel("\n".join(lines[len(head) :]), where)
        verify(kernel)
        x, y, z = (int(n) for n in known["grid"])
        if min(x, y, z) < 0 or math.prod((x, y, z)) > _MOST_GROUPS:
            raise ValueError(f"no grid: {x}, {y}, {z}")
        variant = int(known["variant"])
        pairs = zip(kernel.params, known["inputs"], strict=True)
        inputs = tuple(_unpacked(p, a) for p, a in pairs)
    except (ParseError, VerifyError) as error:
        raise CaseError(str(error)) from error
    except (*_DAMAGE, zlib.error, struct.error) as error:
        raise CaseError(f"{where}: {type(error).__name__}: {error}") from error
    return Program(kernel, inputs, (x, y, z), variant)


def read(path: Path) -> Program:
    """The program of a file; CaseError where it cannot be read."""
    try:
        return from_text(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CaseError(f"{path}: {error}") from error


def _packed(param: Param, value: Argument) -> Any:
    if isinstance(value, np.ndarray):
        return [value.size, base64.b64encode(zlib.compress(value.tobytes(), 9)).decode()]
    return const_bits(value, param.dtype)


def _unpacked(param: Param, value: Any) -> Argument:
    if isinstance(value, list):
        data = zlib.decompress(base64.b64decode(value[1], validate=True))
        array = np.frombuffer(data, param.dtype.storage).copy()
        if array.size != value[0] or not param.is_memory:
            raise ValueError(f"{array.size} elements of {param.name}, expected {value[0]}")
        return array
    if param.is_memory:
        raise ValueError(f"no elements of {param.name}")
    if param.dtype.is_float:
        return bits_float(int(value), param.dtype)
    bits = int(value) & ((1 << param.dtype.bits) - 1)
    if param.dtype.is_bool:
        return bool(bits)
    return bits - (1 << param.dtype.bits) if bits > param.dtype.max else bits
