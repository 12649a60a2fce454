"""The header of a GGUF file.

Source: ggml's docs/gguf.md (versions 2 and 3) and the numbers of `enum ggml_type` in ggml.h. The
package `gguf` reads the same files, but makes arrays of every string, takes seconds for the header
of a small model and does not end on counts that the file has no room for; the tests hold this
reader to it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...ir.dtypes import DTYPES
from ...ir.quantized import BLOCKS
from ..problems import Malformed, Problem, Unsupported
from .cursor import Cursor
from .stored import Entry, Form, Header, entry

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_DIMS = 4
# Arrays of arrays: none are in use, and each level is a call.
MAX_DEPTH = 4

# Types of metadata: letters of `struct`, which numpy reads alike.
_STRING, _ARRAY, _BOOL = 8, 9, 7
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 10: "Q", 11: "q", 12: "d"}
_NUMBERS[_BOOL] = "B"

_ELEMENTS = {
    0: "f32", 1: "f16", 24: "i8", 25: "i16", 26: "i32", 27: "i64", 28: "f64", 30: "bf16",
}  # fmt: skip
FORMS: dict[int, Form] = {number: DTYPES[name] for number, name in _ELEMENTS.items()}
FORMS |= {form.ggml_type: form for form in BLOCKS.values()}
UNREAD = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S",
    22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4",
}  # fmt: skip


def read(path: Path, raw: np.ndarray) -> Header:
    """The header of a file, uint8[size]. CheckpointFormatError where there is none to be read."""
    cursor = Cursor(path, raw)
    cursor.at = len(MAGIC)
    version = cursor.number("I")
    if version not in VERSIONS:
        known = " or ".join(map(str, VERSIONS))
        cursor.fail(Unsupported("version", f"{known}, little-endian", str(version)))
    tensors, pairs = cursor.number("Q"), cursor.number("Q")
    metadata = _metadata(cursor, pairs)
    alignment = _alignment(cursor, metadata)
    entries = _entries(cursor, tensors)
    start = -(-cursor.at // alignment) * alignment
    for found in entries:
        if found.offset % alignment:
            got = f"{found.offset} from the start of the data"
            problem = Malformed(found.name, f"an offset that {alignment} divides", got)
            found.problems.append(problem)
        found.offset += start
    return Header(metadata, entries, _of_the_file(metadata))


def _metadata(cursor: Cursor, count: int) -> dict[str, Any]:
    cursor.what = "metadata"
    cursor.room(13 * count)  # a key without letters and one byte of value
    found: dict[str, Any] = {}
    for _ in range(count):
        cursor.what = "metadata"
        key = cursor.string()
        cursor.what = f"metadata {key!r}"
        if key in found:
            cursor.malformed("each key once", "it again")
        found[key] = _value(cursor, cursor.number("I"), 0)
    return found


def _value(cursor: Cursor, kind: int, depth: int) -> Any:
    if kind in _NUMBERS:
        value = cursor.number(_NUMBERS[kind])
        return bool(value) if kind == _BOOL else value
    if kind == _STRING:
        return cursor.string()
    if kind != _ARRAY or depth == MAX_DEPTH:
        cursor.malformed(f"a type from 0 to 12, arrays up to {MAX_DEPTH} deep", f"type {kind}")
    inner, count = cursor.number("I"), cursor.number("Q")
    if inner == _STRING:
        return cursor.strings(count)
    if inner in _NUMBERS:
        numbers = cursor.numbers("<" + _NUMBERS[inner], count)
        return numbers != 0 if inner == _BOOL else numbers
    return tuple(_value(cursor, inner, depth + 1) for _ in range(count))


def _alignment(cursor: Cursor, metadata: dict[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment <= 0 or alignment % 8:
        cursor.what = "general.alignment"
        cursor.malformed("a multiple of 8", alignment)
    return alignment


def _entries(cursor: Cursor, count: int) -> list[Entry]:
    cursor.what = "tensors"
    cursor.room(24 * count)  # a name without letters and no dimensions
    found: dict[str, Entry] = {}
    for _ in range(count):
        cursor.what = "tensors"
        name = cursor.string()
        cursor.what = f"tensor {name!r}"
        if name in found:
            cursor.malformed("each name once", "it again")
        dims = cursor.number("I")
        if not 1 <= dims <= MAX_DIMS:
            cursor.malformed(f"1 to {MAX_DIMS} dimensions", dims)
        shape = tuple(cursor.numbers("<u8", dims).tolist()[::-1])
        kind, offset = cursor.number("I"), cursor.number("Q")
        found[name] = _entry(name, kind, shape, offset)
    return list(found.values())


def _entry(name: str, kind: int, shape: tuple[int, ...], offset: int) -> Entry:
    if kind in FORMS:
        return entry(name, FORMS[kind], shape, offset)
    known = ", ".join(form.name for form in FORMS.values())
    got = UNREAD.get(kind, f"ggml's type {kind}")
    return Entry(name, None, shape, offset, 0, [Unsupported(name, f"one of {known}", got)])


def _of_the_file(metadata: dict[str, Any]) -> list[Problem]:
    parts = metadata.get("split.count", 1)
    if parts in (0, 1):
        return []
    return [Unsupported("split.count", "a file with all tensors", f"one of {parts}", "merge them")]
