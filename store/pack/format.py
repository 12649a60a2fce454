"""The layout of a pack: docs/PACKS.md shows it, and this module is all that knows it.

    HEADER    128 bytes: magic, ABI, lengths of the file and of the table, digest
    TABLE     counts, columns of the blobs and entries, names, manifests; a multiple of 64 bytes
    BLOBS     one after the other, each filled up with zeros to a multiple of 64 bytes

All numbers are little-endian. The header's digest covers the rest of the header and the table; the
table has a digest of every blob's bytes with their padding. Blobs have no offsets: each begins
where the one before ends, the first behind the table, and the last ends with the file. So blobs
neither overlap nor leave a byte that no digest covers.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from dataclasses import dataclass

from .errors import NotAPack, PackCorrupt, PackMissing, PackVersion

# As in PNG: a file that went through a conversion of line ends or lost its eighth bits is none.
MAGIC = b"\x89GMP\r\n\x1a\n"
ABI = 1  # raised with the layout, the manifest's schema and the calling convention
SUFFIX = ".pack"
ALIGN = 64
DIGEST = 32
_HEAD = struct.Struct("<8sI4xQQ64x")  # magic, ABI, bytes of the file, bytes of the table
HEADER_BYTES = _HEAD.size + DIGEST
_COUNTS = struct.Struct("<8I")
_WEB = b'{"bytes":'  # how a pack for web pages begins

MOST_ENTRIES = 1 << 20
MOST_TABLE = 1 << 30  # bytes
MOST_BLOB = 1 << 28  # bytes, of an artifact as it is loaded
MOST_TEXT = 1 << 26  # bytes, of the names, and of one block of manifests
BLOCK = 32  # manifests in a block


def padded(size: int) -> int:
    """The size filled up to a multiple of ALIGN."""
    return -(-size // ALIGN) * ALIGN


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that may be compressed. stored: their length in the file, raw: once decoded."""

    stored: int
    raw: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table, decoded as far as opening needs it.

    blobs: stored and raw lengths, codecs, digests of the stored bytes with their padding and of the
    raw bytes. dictionary: number of the blob that the others are compressed with, or None. entries:
    number of the blob and key of each. names: path, kernel and specialization of each, as lines.
    blocks: manifests of BLOCK entries each. text_codec: how names and manifests are compressed.
    """

    stored: tuple[int, ...]
    raw: tuple[int, ...]
    codecs: bytes
    digests: bytes
    contents: bytes
    dictionary: int | None
    blob_of: tuple[int, ...]
    keys: bytes
    text_codec: int
    names: tuple[Part, bytes]
    blocks: tuple[tuple[Part, bytes], ...]


def header(abi: int, file_bytes: int, table: bytes) -> bytes:
    """The header of a file of that many bytes with that table."""
    head = _HEAD.pack(MAGIC, abi, file_bytes, len(table))
    return head + hashlib.sha256(head + table).digest()


def read_header(data: bytes, file_bytes: int, where: str) -> tuple[int, bytes]:
    """Bytes of the table and the digest that it must have with the header.

    NotAPack, PackVersion, PackCorrupt: the file is not as long as the header says.
    """
    if data[: len(MAGIC)] != MAGIC:
        kind = "a pack for web pages" if data.startswith(_WEB) else f"{data[:8]!r}"
        raise NotAPack("not a pack", where=where, expected=f"a file with {MAGIC!r}", got=kind)
    if len(data) < HEADER_BYTES:
        raise _length(HEADER_BYTES, len(data), where)
    _, abi, stated, table_bytes = _HEAD.unpack_from(data)
    if abi != ABI:
        raise PackVersion(abi, ABI, where)
    if stated != file_bytes:
        raise _length(stated, file_bytes, where)
    if table_bytes > MOST_TABLE or HEADER_BYTES + table_bytes > stated:
        raise odd("table over the limit", where, f"at most {MOST_TABLE} bytes", table_bytes)
    return table_bytes, data[_HEAD.size : HEADER_BYTES]


def table_digest(head: bytes, table: bytes) -> bytes:
    """What the header's digest must be. head: the header."""
    return hashlib.sha256(head[: _HEAD.size] + table).digest()


def table(parts: Table) -> bytes:
    """The bytes of a table, padding included."""
    names, packed_names = parts.names
    counts = (
        len(parts.blob_of),
        len(parts.stored),
        0 if parts.dictionary is None else parts.dictionary + 1,
        BLOCK,
        parts.text_codec,
        names.stored,
        names.raw,
        0,
    )
    columns = (
        parts.stored,
        parts.raw,
        parts.blob_of,
        tuple(part.stored for part, _ in parts.blocks),
        tuple(part.raw for part, _ in parts.blocks),
    )
    data = b"".join(
        [
            _COUNTS.pack(*counts),
            *(struct.pack(f"<{len(column)}I", *column) for column in columns),
            parts.digests,
            parts.contents,
            parts.keys,
            parts.codecs,
            packed_names,
            *(packed for _, packed in parts.blocks),
        ]
    )
    return data.ljust(padded(len(data)), b"\0")


class _Cursor:
    """Takes one part of a table after the other; PackCorrupt where it ends too early."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where, self.at = data, where, _COUNTS.size

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise odd("table too short for its counts", self.where, f"{end} bytes", len(self.data))
        found, self.at = self.data[self.at : end], end
        return found

    def numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self.take(4 * count))


def read_table(data: bytes, blob_bytes: int, where: str) -> Table:
    """Decode a table whose digest is right. blob_bytes: of the file behind it.

    PackCorrupt on all that no writer writes: counts that do not fit each other or the file.
    """
    if len(data) < _COUNTS.size:
        raise odd("table too short", where, f"{_COUNTS.size} bytes at least", len(data))
    entries, blobs, dictionary, block, codec, names_stored, names_raw, zero = _COUNTS.unpack_from(
        data
    )
    if max(entries, blobs) > MOST_ENTRIES or block != BLOCK or dictionary > blobs or zero:
        what = f"{entries} entries, {blobs} blobs, dictionary {dictionary}, {block} in a block"
        raise odd("counts of a table", where, f"at most {MOST_ENTRIES}, {BLOCK} in a block", what)
    cursor = _Cursor(data, where)
    stored, raw = cursor.numbers(blobs), cursor.numbers(blobs)
    blob_of = cursor.numbers(entries)
    count = -(-entries // BLOCK)
    sizes = zip(cursor.numbers(count), cursor.numbers(count), strict=True)
    digests, contents = cursor.take(DIGEST * blobs), cursor.take(DIGEST * blobs)
    keys, codecs = cursor.take(DIGEST * entries), cursor.take(blobs)
    names = (Part(names_stored, names_raw), cursor.take(names_stored))
    blocks = tuple((Part(*size), cursor.take(size[0])) for size in sizes)
    if padded(cursor.at) != len(data):
        raise odd("length of a table", where, f"{padded(cursor.at)} bytes", len(data))
    if (found := sum(map(padded, stored))) != blob_bytes:
        raise odd("blobs that do not fill the file", where, f"{blob_bytes} bytes", found)
    if max(raw, default=0) > MOST_BLOB:
        raise odd("blob over the limit", where, f"at most {MOST_BLOB} bytes", max(raw))
    if max(blob_of, default=-1) >= blobs:
        raise odd("entry with a blob beyond the last", where, f"below {blobs}", max(blob_of))
    if max([names_raw, *(part.raw for part, _ in blocks)]) > MOST_TEXT:
        raise odd("names or manifests over the limit", where, f"at most {MOST_TEXT} bytes", "more")
    return Table(
        stored,
        raw,
        codecs,
        digests,
        contents,
        dictionary - 1 if dictionary else None,
        blob_of,
        keys,
        codec,
        names,
        blocks,
    )


def offsets(table_bytes: int, stored: tuple[int, ...]) -> list[int]:
    """Where each blob begins in the file, and where the last ends."""
    first = HEADER_BYTES + table_bytes
    return list(itertools.accumulate(map(padded, stored), initial=first))


def odd(what: str, where: str, expected: str, got: object) -> PackCorrupt:
    """The error for what no writer of packs writes."""
    return PackCorrupt(what, where=where, expected=expected, got=str(got), do=AGAIN)


AGAIN = "fetch or make the pack again"


def _length(expected: int, got: int, where: str) -> PackCorrupt:
    cut = "cut short" if got < expected else "longer than it was made"
    return odd(f"file that is {cut}", where, f"{expected} bytes", got)


def missing(path: str | os.PathLike[str], error: Exception) -> PackMissing:
    """The error for a pack that cannot be opened."""
    reason = getattr(error, "strerror", None) or error
    return PackMissing(f"no pack: {reason}", where=path, do="make it with scons pack")
