"""The header of a safetensors file.

Source: the format's description at docs/safetensors (a u64 length, so many bytes of JSON, then the
tensors without gaps). The package `safetensors` copies what it hands out and has no bf16 for numpy;
the tests hold this reader to it.
"""

from __future__ import annotations

import json
import reprlib
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.dtypes import DTYPES
from ..errors import CheckpointFormatError
from ..problems import Malformed, Problem, Unsupported
from .cursor import Cursor
from .stored import Entry, Header, entry

# What the format allows at most, in bytes.
MAX_HEADER = 100_000_000

FORMS = {
    name: DTYPES[own]
    for name, own in {
        "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16",
        "F8_E4M3": "f8e4m3", "F8_E5M2": "f8e5m2",
        "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
        "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8",
    }.items()
}  # fmt: skip


def read(path: Path, raw: np.ndarray) -> Header:
    """The header of a file, uint8[size]. CheckpointFormatError where there is none to be read."""
    cursor = Cursor(path, raw)
    size = cursor.number("Q")
    if size > MAX_HEADER:
        cursor.malformed(f"a length of up to {MAX_HEADER} bytes", size)
    cursor.room(size)
    start = cursor.at + size
    told = _json(cursor, bytes(cursor.bytes[cursor.at : start]))
    metadata = told.pop("__metadata__", {})
    problems: list[Problem] = []
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        problems.append(Malformed("__metadata__", "strings by key", reprlib.repr(metadata)))
    entries = []
    for name, facts in told.items():
        found = _entry(name, facts, start)
        if isinstance(found, Entry):
            entries.append(found)
        else:
            problems.append(found)
    if problems:
        raise CheckpointFormatError(path, problems)
    return Header(metadata, entries, _of_the_file(entries, start, raw.size))


def _json(cursor: Cursor, text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        cursor.malformed("JSON", error)
    if not isinstance(found, dict):
        cursor.malformed("an object of JSON", type(found).__name__)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key that is there twice")
    return found


def _entry(name: str, facts: Any, start: int) -> Entry | Problem:
    if not isinstance(facts, dict) or facts.keys() != {"dtype", "shape", "data_offsets"}:
        return Malformed(name, "dtype, shape and data_offsets", reprlib.repr(facts))
    kind, shape, ends = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(kind, str) or not _counts(shape):
        return Malformed(name, "a name of a type and extents", reprlib.repr((kind, shape)))
    if not _counts(ends) or len(ends) != 2 or ends[0] > ends[1]:
        return Malformed(name, "two offsets, the lower first", reprlib.repr(ends))
    offset, size = start + ends[0], ends[1] - ends[0]
    if kind in FORMS:
        return entry(name, FORMS[kind], tuple(shape), offset, size)
    problem = Unsupported(name, f"one of {', '.join(FORMS)}", reprlib.repr(kind))
    return Entry(name, None, tuple(shape), offset, size, [problem])


def _counts(found: Any) -> bool:
    return isinstance(found, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in found)


def _of_the_file(entries: list[Entry], start: int, size: int) -> list[Problem]:
    """Bytes between tensors or behind them; that tensors share bytes or lack some, they say."""
    held = sum(e.size for e in entries)
    if held >= size - start:
        return []
    return [Malformed("data", f"{held} bytes, those of the tensors", f"{size - start} bytes")]
