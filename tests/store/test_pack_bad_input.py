"""Packs whose digests are right and that no writer writes: bombs, tricks, tables that lie."""

from __future__ import annotations

import contextlib
import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.pack import codecs, format
from gristmill.store.pack.errors import (
    CodecMissing,
    PackConflict,
    PackCorrupt,
    PackError,
)
from gristmill.store.pack.writing import pack_bytes
from toy_packs import altered, item, items, opened, single, text


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fails if what is done within takes much memory."""
    tracemalloc.start()
    try:
        yield
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 1 << 22


def raw(data: bytes) -> bytes:
    return codecs.encode(codecs.DEFLATE, data)


@pytest.mark.parametrize(
    ("blob", "size", "codec"),
    [
        (raw(bytes(1 << 26)), 100, codecs.DEFLATE),  # a bomb
        (raw(b"x" * 99), 100, codecs.DEFLATE),
        (raw(b"x" * 100) + b"more", 100, codecs.DEFLATE),
        (raw(bytes(range(100)))[:-9], 100, codecs.DEFLATE),
        (b"\xff" * 50, 100, codecs.DEFLATE),
        (b"", 0, codecs.DEFLATE),
        (b"x" * 101, 100, codecs.NONE),
        (b"x" * 100, 100, 7),
    ],
)
def test_blobs_of_another_length_are_refused_and_never_become_long(
    tmp_path: Path, blob: bytes, size: int, codec: int
) -> None:
    pack = opened(tmp_path / "a.pack", single(blob, size, codec, b"x" * size))
    with pytest.raises(PackCorrupt), bounded():
        pack.read(0)


def test_zstd_is_bounded_too(tmp_path: Path, require: Any) -> None:
    require("zstandard")
    import zstandard

    plain = zstandard.ZstdCompressor(level=3)
    unsized = zstandard.ZstdCompressor(level=3, write_content_size=False)
    for blob in (
        plain.compress(bytes(1 << 26)),
        unsized.compress(bytes(1 << 26)),
        plain.compress(b"x" * 100) + b"more",
        plain.compress(b"x" * 100)[:-3],
        b"junk",
    ):
        data = single(blob, 100, codecs.ZSTD, b"x" * 100)
        with opened(tmp_path / "a.pack", data) as pack, pytest.raises(PackCorrupt), bounded():
            pack.read(0)


def test_what_a_blob_becomes_has_a_digest_too(tmp_path: Path) -> None:
    data = single(raw(b"x" * 100), 100, codecs.DEFLATE, b"y" * 100)
    pack = opened(tmp_path / "a.pack", data)
    with pytest.raises(PackCorrupt, match="artifact with wrong content"):
        pack.read(0)


def test_a_table_has_no_room_behind_its_padding(tmp_path: Path) -> None:
    good = pack_bytes(items(4))
    length, _ = format.read_header(good, len(good), "")
    table = good[128 : 128 + length] + bytes(64)
    longer = format.header(format.ABI, len(good) + 64, table) + table + good[128 + length :]
    with pytest.raises(PackCorrupt, match="length of a table"):
        opened(tmp_path / "a.pack", longer)


def test_a_block_holds_no_manifests_beside_those_of_its_entries(tmp_path: Path) -> None:
    both = pack_bytes([item(), item("two")], "none")
    begin = both.index(b'{"manifest"')
    lines = both[begin : both.index(b"\0", begin)]
    blocks = (text(lines),)
    names = text(b"a.kir\nshift\ni32")
    data = altered(pack_bytes([item()]), lambda t: {"blocks": blocks, "names": names})
    pack = opened(tmp_path / "a.pack", data)
    with pytest.raises(PackCorrupt, match="expected 1 lines, got 2"):
        pack.entry(0)


def test_a_codec_that_is_not_installed_is_refused_at_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = single(b"x" * 100, 100, codecs.ZSTD, b"x" * 100)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(CodecMissing, match=r"pip install 'gristmill\[zstd\]'"):
        opened(tmp_path / "a.pack", data)
    with pytest.raises(CodecMissing, match="zstd is not installed"):
        pack_bytes(items(), "zstd")
    assert len(opened(tmp_path / "a.pack", pack_bytes(items(3)))) == 3


PATHS = ["../up.kir", "/etc/passwd", "a/../../b", "a//b", "./a", "a/.", "..", "", "a\\b", "c:/a"]
PATHS += ["a\0b", "a\x1b[2Jb", "a/" + "b" * 300, "a/"]


@pytest.mark.parametrize("path", PATHS)
def test_path_tricks_are_refused_both_ways(tmp_path: Path, path: str) -> None:
    with pytest.raises(PackConflict, match="names of the entries"):
        pack_bytes([item(path=path)])
    names = text(f"{path}\nshift\ni32".encode())
    with pytest.raises(PackCorrupt, match="names"):
        opened(tmp_path / "a.pack", altered(pack_bytes([item()]), lambda t: {"names": names}))


def test_names_are_used_once(tmp_path: Path) -> None:
    with pytest.raises(PackConflict, match="one path twice"):
        pack_bytes([item(), item()])
    with pytest.raises(PackConflict, match="an entry and a folder"):
        pack_bytes([item(path="a/b"), item("two", path="a/b/c")])
    names = text(b"a\na\none\ntwo\ni32\ni32")
    data = pack_bytes([item("one"), item("two")])
    with pytest.raises(PackCorrupt, match="one path twice"):
        opened(tmp_path / "a.pack", altered(data, lambda t: {"names": names}))


def changed(column: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*column[:at], value, *column[at + 1 :])


@pytest.mark.parametrize(
    ("change", "tail"),
    [
        # Blobs have no offsets: what would overlap or reach beyond the file does not fill it.
        (lambda t: {"stored": changed(t.stored, 0, t.stored[0] + 64)}, b""),
        (lambda t: {"stored": changed(t.stored, 0, 0)}, b""),
        (lambda t: {"stored": changed(t.stored, 1, 0xFFFFFFFF)}, b""),
        (lambda t: {}, bytes(64)),
        (lambda t: {"raw": changed(t.raw, 0, format.MOST_BLOB + 1)}, b""),
        (lambda t: {"blob_of": changed(t.blob_of, 0, len(t.stored))}, b""),
        (lambda t: {"dictionary": len(t.stored)}, b""),
        (lambda t: {"codecs": t.codecs[:-1]}, b""),
        (lambda t: {"codecs": t.codecs + bytes(200)}, b""),
        (lambda t: {"text_codec": 9}, b""),
        (lambda t: {"names": text(b"a\nb")}, b""),
        (lambda t: {"names": text(b"\xff" * 9)}, b""),
        (lambda t: {"names": (format.Part(t.names[0].stored, 9), t.names[1])}, b""),
        (lambda t: {"names": (format.Part(t.names[0].stored, 1 << 31), t.names[1])}, b""),
        (lambda t: {"names": (format.Part(1 << 31, t.names[0].raw), t.names[1])}, b""),
        (lambda t: {"names": text(bytes(1 << 25))}, b""),
    ],
)
def test_tables_that_no_writer_writes_are_refused_at_open(
    tmp_path: Path, change: Callable[[format.Table], dict[str, Any]], tail: bytes
) -> None:
    good = pack_bytes(items(12))
    opened(tmp_path / "a.pack", altered(good, lambda t: {})).verify()
    with pytest.raises(PackCorrupt):
        opened(tmp_path / "a.pack", altered(good, change, tail))


@pytest.mark.parametrize("count", [2**32 - 1, 1 << 20, 1000])
@pytest.mark.parametrize("field", range(8))
def test_counts_cost_nothing_before_they_are_held_against_the_file(
    tmp_path: Path, field: int, count: int
) -> None:
    data = pack_bytes(items(4))
    length, _ = format.read_header(data, len(data), "")
    table = bytearray(data[128 : 128 + length])
    struct.pack_into("<I", table, 4 * field, count)
    whole = format.header(format.ABI, len(data), bytes(table)) + table + data[128 + length :]
    with pytest.raises(PackCorrupt):
        opened(tmp_path / "a.pack", whole)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"[]",
        b"{",
        b'{"manifest":{},"sites":[]}',
        b'{"manifest":7,"sites":[]}',
        b"[" * 100000,
        b"one\ntwo",
        b"\xff",
    ],
)
def test_manifests_that_are_none_are_typed_errors(tmp_path: Path, record: bytes) -> None:
    data = altered(pack_bytes([item()]), lambda t: {"blocks": (text(record),)})
    with opened(tmp_path / "a.pack", data) as pack, pytest.raises(PackCorrupt):
        pack.entry(0)


@pytest.mark.parametrize(
    "site", [b'{"file":7,"line":1,"column":1}', b'{"file":"a","line":"1","column":1}', b"7", b"{}"]
)
def test_places_of_faults_that_are_none_are_typed_errors(tmp_path: Path, site: bytes) -> None:
    whole = pack_bytes([item()], "none")
    begin = whole.index(b'{"manifest"')
    record = whole[begin : whole.index(b"\0", begin)]
    head, _, _ = record.rpartition(b'"sites":')
    odd = head + b'"sites":[' + site + b"]}"
    data = altered(pack_bytes([item()]), lambda t: {"blocks": (text(odd),)})
    with opened(tmp_path / "a.pack", data) as pack, pytest.raises(PackCorrupt):
        pack.entry(0)


def test_a_blob_of_no_entry_is_told_by_who_verifies(tmp_path: Path) -> None:
    """Room for what a signature would cover and nobody looks at."""
    both = pack_bytes([item("one"), item("two", blob=b"x" * 100)])
    data = altered(both, lambda t: {"blob_of": (t.blob_of[0], t.blob_of[0])})
    with opened(tmp_path / "a.pack", data) as pack, pytest.raises(PackCorrupt, match="no entry"):
        pack.verify()


def test_a_manifest_of_another_entry_is_refused(tmp_path: Path) -> None:
    names = text(b"interp-kir/shift/i32.kir\nother\ni32")
    data = altered(pack_bytes([item()]), lambda t: {"names": names})
    with (
        opened(tmp_path / "a.pack", data) as pack,
        pytest.raises(PackCorrupt, match="another entry"),
    ):
        pack.entry(0)


def test_damage_at_random_is_a_typed_error(tmp_path: Path, rng: Any) -> None:
    """Whole bytes exchanged, parts repeated and cut out, with headers made right again."""
    good = pack_bytes(items(12))
    for _ in range(300):
        bad = bytearray(good)
        at, size = (int(n) for n in rng.integers(128, len(good), 2))
        match int(rng.integers(3)):
            case 0:
                bad[at : at + 4] = rng.bytes(4)
            case 1:
                del bad[at : at + size % 200]
            case _:
                bad[at:at] = bad[size : size + 100]
        length = int(struct.unpack_from("<Q", good, 24)[0])
        data = format.header(format.ABI, len(bad), bytes(bad[128 : 128 + length])) + bad[128:]
        try:
            with opened(tmp_path / "a.pack", bytes(data)) as pack:
                for number in range(len(pack)):
                    pack.entry(number)
                    pack.read(number)
        except PackError:
            continue
