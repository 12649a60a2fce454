"""Opening a pack and reading entries of it, each by itself.

What opening costs does not depend on the size of the blobs: header and table are read and their
digest is checked, names are decoded. Manifests are decoded a block at a time where one is asked
for. The bytes of a blob are copied out of the mapping, checked and decoded, in this order; no byte
reaches a decoder or a caller before its digest has been found right.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..bundle import Entry, Place
from ..manifest import Manifest
from ..schema import ManifestError
from . import codecs, format
from .errors import PackCorrupt, PackMissing
from .names import bad_paths, bad_words


class Pack:
    """An open pack, made by `Pack.open`. Safe for threads.

    digest: of header and table, in hexadecimal; it covers all of the file. paths, kernels,
    specializations: of the entries, in the pack's order.
    """

    def __init__(self, path: Path, file: int) -> None:
        self.path, self._file = path, file
        self._map: Any = None  # until it is there, for `close`
        where, size = str(path), os.fstat(file).st_size
        self._size, self._map = size, _mapped(file, size, where)
        head = self._map[: format.HEADER_BYTES]
        length, expected = format.read_header(head, size, where)
        # A copy: what is checked is what is decoded, whatever becomes of the file.
        table = self._map[format.HEADER_BYTES : format.HEADER_BYTES + length]
        if (found := format.table_digest(head, table)) != expected:
            raise _wrong("header or table with wrong content", where, expected, found)
        self.digest = found.hex()
        blob_bytes = size - format.HEADER_BYTES - length
        self._table = format.read_table(table, blob_bytes, where)
        self._offsets = format.offsets(length, self._table.stored)
        for codec in {*self._table.codecs, self._table.text_codec}:
            codecs.require(codec, where)
        self.paths, self.kernels, self.specializations = self._names()
        self._block: tuple[int, list[bytes]] = (-1, [])
        self._dictionary: bytes | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Pack:
        """Open a pack and check its table.

        PackMissing, NotAPack, PackVersion (an ABI of another number), PackCorrupt (wrong digest,
        wrong length, counts that do not fit), CodecMissing.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # no pipe
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
            raise format.missing(path, error) from error
        return cls(Path(path), file)  # which owns the file from here on

    def __len__(self) -> int:
        return len(self.paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the mapping and the file; nothing can be read any more."""
        if self._map is not None:
            self._map.close()
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def __del__(self) -> None:
        self.close()

    def number(self, path: str) -> int:
        """The number of the entry of that path. PackMissing."""
        try:
            return self.paths.index(path)
        except ValueError as error:
            raise PackMissing(f"no entry {path!r}", where=self.path) from error

    def manifest(self, number: int) -> Manifest:
        """The manifest of an entry; the numbers count from 0. PackCorrupt."""
        return self.entry(number).manifest

    def entry(self, number: int) -> Entry:
        """Manifest, path and places of the fault sites of an entry. PackCorrupt."""
        where = f"{self.path}/{self.paths[number]}"
        try:
            data = json.loads(self._record(number))
            blob = self._table.blob_of[number]
            manifest = Manifest.from_dict(
                {
                    "key": _hex(self._table.keys, number),
                    **data["manifest"],
                    "sha256": _hex(self._table.contents, blob),
                    "size": self._table.raw[blob],
                },
                where,
            )
            sites = tuple(Place(**site) if site is not None else None for site in data["sites"])
            right = all(map(_is_place, sites))
        except ManifestError as error:
            raise PackCorrupt(str(error), do=format.AGAIN) from error
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise PackCorrupt(f"not a manifest ({error!r})", where=where) from error
        named = (self.kernels[number], self.specializations[number])
        if not right or (manifest.kernel, manifest.specialization) != named:
            got = f"{manifest.kernel} {manifest.specialization}"
            raise format.odd("manifest of another entry", where, " ".join(named), got)
        return Entry(manifest, self.paths[number], sites)

    def __iter__(self) -> Iterator[Entry]:
        return map(self.entry, range(len(self)))

    def read(self, number: int) -> bytes:
        """The artifact of an entry. PackCorrupt where a byte of it is not as it was written."""
        where = f"{self.path}/{self.paths[number]}"
        return self._blob(self._table.blob_of[number], where, self._shared())

    def sizes(self, number: int) -> tuple[int, int, str]:
        """Bytes of an entry's artifact, bytes that it takes in the file, and its codec."""
        blob = self._table.blob_of[number]
        codec = codecs.NAMES[self._table.codecs[blob]]
        return self._table.raw[blob], self._table.stored[blob], codec

    def verify(self) -> int:
        """Read everything; gives the number of entries. PackCorrupt at the first wrong one."""
        for number in range(len(self)):
            self.entry(number)
            self.read(number)
        for blob in {*range(len(self._table.stored))} - {*self._table.blob_of}:
            if blob != self._table.dictionary:
                raise format.odd("blob of no entry", str(self.path), "none", f"blob {blob}")
        return len(self)

    def file_digest(self) -> str:
        """sha256 of the whole file in hexadecimal, which reads all of it."""
        self._uncut()
        return hashlib.sha256(self._map).hexdigest()

    def _names(self) -> tuple[list[str], list[str], list[str]]:
        where, part = str(self.path), self._table.names
        text = codecs.decode(self._table.text_codec, part[1], part[0].raw, f"{where}: its names")
        try:
            lines = text.decode().split("\n") if text else []
        except UnicodeDecodeError as error:
            raise format.odd("names", where, "UTF-8", error) from error
        count = len(self._table.blob_of)
        if len(lines) != 3 * count:
            raise format.odd("names", where, f"{3 * count} lines", len(lines))
        paths, kernels, specializations = (lines[n * count : (n + 1) * count] for n in range(3))
        if why := bad_paths(paths) or bad_words(kernels) or bad_words(specializations):
            raise format.odd("names", where, "relative paths and words", why)
        return paths, kernels, specializations

    def _record(self, number: int) -> bytes:
        """The JSON of an entry, of the block that holds it."""
        block, place = divmod(number, format.BLOCK)
        have, lines = self._block
        if have != block:
            part, data = self._table.blocks[block]
            where = f"{self.path}: manifests {block}"
            lines = codecs.decode(self._table.text_codec, data, part.raw, where).split(b"\n")
            count = min(format.BLOCK, len(self) - block * format.BLOCK)
            if len(lines) != count:
                raise format.odd("manifests", where, f"{count} lines", len(lines))
            self._block = (block, lines)
        return lines[place]

    def _shared(self) -> bytes:
        """The dictionary that blobs are compressed with, or nothing."""
        if self._dictionary is None:
            number = self._table.dictionary
            where = f"{self.path}: its dictionary"
            self._dictionary = b"" if number is None else self._blob(number, where, b"")
        return self._dictionary

    def _blob(self, blob: int, where: str, dictionary: bytes) -> bytes:
        self._uncut()
        begin, end = self._offsets[blob : blob + 2]
        data = self._map[begin:end]
        table = self._table
        _check(data, table.digests, blob, "blob with wrong content", where)
        packed = data[: table.stored[blob]]
        codec = table.codecs[blob]
        raw = codecs.decode(codec, packed, table.raw[blob], where, dictionary)
        _check(raw, table.contents, blob, "artifact with wrong content", where)
        return raw

    def _uncut(self) -> None:
        """PackCorrupt if the file was cut: touching a mapping of what is gone ends the process."""
        if self._file < 0:
            raise PackMissing("the pack is closed", where=self.path)
        if (size := os.fstat(self._file).st_size) != self._size:
            raise format.odd("file changed while open", str(self.path), f"{self._size} bytes", size)


def _mapped(file: int, size: int, where: str) -> Any:
    if not size:
        raise format.odd("empty file", where, f"{format.HEADER_BYTES} bytes at least", 0)
    try:
        return mmap.mmap(file, size, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    except OSError as error:  # a folder, a pipe
        raise PackMissing(f"cannot be mapped: {error}", where=where) from error


def _hex(column: bytes, number: int) -> str:
    return column[number * format.DIGEST : (number + 1) * format.DIGEST].hex()


def _check(data: bytes, column: bytes, number: int, what: str, where: str) -> None:
    expected = column[number * format.DIGEST : (number + 1) * format.DIGEST]
    if (found := hashlib.sha256(data).digest()) != expected:
        raise _wrong(what, where, expected, found)


def _wrong(what: str, where: str, expected: bytes, found: bytes) -> PackCorrupt:
    return format.odd(what, where, f"sha256 {expected.hex()}", found.hex())


def _is_place(site: Any) -> bool:
    return site is None or (
        isinstance(site.file, str) and isinstance(site.line, int) and isinstance(site.column, int)
    )
