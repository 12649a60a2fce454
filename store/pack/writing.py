"""Making packs: equal inputs give equal bytes, with the same release of the codec's library."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from ..bundle import Entry
from ..files import write_atomic
from . import codecs, format
from .errors import PackConflict
from .names import bad_paths, bad_words, folder_and_file
from .reading import Pack

# A dictionary: the heads of blobs that lie evenly among all, as long as deflate can look back.
_DICTIONARY, _SAMPLES, _HEAD = 32768, 16, 4096
_FEWEST = 8  # blobs that are worth one
_SHA256 = re.compile("[0-9a-f]{64}")
_APART = ("key", "sha256", "size")  # fields of a manifest that are columns of the table


class Item(NamedTuple):
    """An entry with its artifact."""

    entry: Entry
    blob: bytes


def pack_bytes(items: Iterable[Item], codec: str = "deflate") -> bytes:
    """The pack of some entries: sorted by kernel, specialization and target, variants as they come.

    PackConflict: a blob that is not its manifest's, two entries of one path, a path that leads out
    of a folder, too much. CodecMissing. KeyError: no codec of that name.
    """
    number = codecs.CODECS[codec]
    items = sorted(items, key=_order)
    _check(items)
    raw = list(dict.fromkeys(item.blob for item in items))
    place = {blob: n for n, blob in enumerate(raw)}
    dictionary, packed = _compressed(raw, number)
    if dictionary:
        raw.append(dictionary)
        packed.append(_smaller(number, dictionary, b""))
    stored = [data for _, data in packed]
    filled = [data.ljust(format.padded(len(data)), b"\0") for data in stored]
    text_codec = codecs.NONE if number == codecs.NONE else codecs.DEFLATE
    table = format.table(
        format.Table(
            stored=tuple(map(len, stored)),
            raw=tuple(map(len, raw)),
            codecs=bytes(used for used, _ in packed),
            digests=b"".join(hashlib.sha256(data).digest() for data in filled),
            contents=b"".join(hashlib.sha256(data).digest() for data in raw),
            dictionary=len(raw) - 1 if dictionary else None,
            blob_of=tuple(place[item.blob] for item in items),
            keys=b"".join(_column(item.entry.manifest.key) for item in items),
            text_codec=text_codec,
            names=_text(text_codec, _names(items)),
            blocks=tuple(_blocks(text_codec, items)),
        )
    )
    size = format.HEADER_BYTES + len(table) + sum(map(len, filled))
    return b"".join([format.header(format.ABI, size, table), table, *filled])


def write_pack(path: str | os.PathLike[str], items: Iterable[Item], codec: str = "deflate") -> str:
    """Write a pack, all or nothing; gives its digest. Raises as `pack_bytes`, and WriteError."""
    data = pack_bytes(items, codec)
    write_atomic(Path(path), data)
    return data[format.HEADER_BYTES - format.DIGEST : format.HEADER_BYTES].hex()


def merged(packs: Sequence[Pack]) -> list[Item]:
    """The entries of several packs; one that is equal in two of them is there once.

    PackConflict names the entry that two packs hold in different forms.
    """
    found: dict[str, tuple[Pack, Item]] = {}
    for pack in packs:
        for number, entry in enumerate(pack):
            item = Item(entry, pack.read(number))
            other, known = found.setdefault(entry.path, (pack, item))
            if known != item:
                raise PackConflict(
                    f"{entry.path} is another artifact in {other.path}",
                    where=pack.path,
                    do="merge packs of one build",
                )
    return [item for _, item in found.values()]


def _order(item: Item) -> tuple[str, str, str]:
    manifest = item.entry.manifest
    return manifest.kernel, manifest.specialization, manifest.target


def _check(items: Sequence[Item]) -> None:
    for entry, blob in items:
        manifest = entry.manifest
        digest = hashlib.sha256(blob).hexdigest()
        if (digest, len(blob)) != (manifest.sha256, manifest.size):
            raise PackConflict(
                "artifact that is not its manifest's",
                where=entry.path,
                expected=f"{manifest.size} bytes of sha256 {manifest.sha256}",
                got=f"{len(blob)} bytes of {digest}",
            )
        if len(blob) > format.MOST_BLOB:
            limit = f"at most {format.MOST_BLOB} bytes"
            raise PackConflict("artifact", where=entry.path, expected=limit, got=str(len(blob)))
    if len(items) > format.MOST_ENTRIES:
        raise PackConflict(f"more than {format.MOST_ENTRIES} entries", got=str(len(items)))
    paths = [item.entry.path for item in items]
    words = [w for i in items for w in (i.entry.manifest.kernel, i.entry.manifest.specialization)]
    if why := bad_paths(paths) or bad_words(words):
        raise PackConflict(f"names of the entries: {why}", do="name each by a path of its own")
    if path := folder_and_file(paths):
        raise PackConflict(f"{path} is an entry and a folder of others")


def _compressed(raw: Sequence[bytes], codec: int) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The dictionary, or nothing, and each blob with the codec that it has in the end."""
    plain = [_smaller(codec, data, b"") for data in raw]
    if codec == codecs.NONE or len(raw) < _FEWEST:
        return b"", plain
    sample = raw[:: max(1, len(raw) // _SAMPLES)]
    dictionary = b"".join(data[:_HEAD] for data in sample)[:_DICTIONARY]
    packed = [_smaller(codec, data, dictionary) for data in raw]
    cost = len(_smaller(codec, dictionary, b"")[1]) + sum(len(data) for _, data in packed)
    if cost < sum(len(data) for _, data in plain):
        return dictionary, packed
    return b"", plain


def _smaller(codec: int, data: bytes, dictionary: bytes) -> tuple[int, bytes]:
    """The data as the codec has it, or as it is where that is not longer."""
    packed = codecs.encode(codec, data, dictionary)
    return (codec, packed) if len(packed) < len(data) else (codecs.NONE, data)


def _names(items: Sequence[Item]) -> bytes:
    """All paths, then all kernels, then all specializations, a line each."""
    manifests = [item.entry.manifest for item in items]
    lines = [item.entry.path for item in items]
    lines += [m.kernel for m in manifests] + [m.specialization for m in manifests]
    return "\n".join(lines).encode()


def _blocks(codec: int, items: Sequence[Item]) -> Iterable[tuple[format.Part, bytes]]:
    lines = []
    for item in items:
        plain = asdict(item.entry)
        manifest = {k: v for k, v in plain["manifest"].items() if k not in _APART}
        if not _SHA256.fullmatch(key := plain["manifest"]["key"]):
            manifest["key"] = key  # of an artifact that no build made
        record = {"manifest": manifest, "sites": plain["sites"]}
        lines.append(json.dumps(record, sort_keys=True, separators=(",", ":")).encode())
    for first in range(0, len(lines), format.BLOCK):
        yield _text(codec, b"\n".join(lines[first : first + format.BLOCK]))


def _column(key: str) -> bytes:
    return bytes.fromhex(key) if _SHA256.fullmatch(key) else bytes(format.DIGEST)


def _text(codec: int, data: bytes) -> tuple[format.Part, bytes]:
    if len(data) > format.MOST_TEXT:
        raise PackConflict(
            "names or manifests", expected=f"at most {format.MOST_TEXT} bytes", got=str(len(data))
        )
    packed = codecs.encode(codec, data)
    return format.Part(len(packed), len(data)), packed
