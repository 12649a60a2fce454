"""Packs: what goes in comes out, equal inputs give equal bytes, and nothing odd is opened."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.pack import codecs, format
from gristmill.store.pack.errors import (
    NotAPack,
    PackConflict,
    PackCorrupt,
    PackError,
    PackMissing,
    PackVersion,
)
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, merged, pack_bytes, write_pack
from toy_packs import item, items, opened


@pytest.mark.parametrize("codec", list(codecs.CODECS))
def test_what_goes_in_comes_out(tmp_path: Path, require: Any, codec: str) -> None:
    if codec == "zstd":
        require("zstandard")
    given = items()
    given[3] = item("kernel00", "s3", blob=os.urandom(100))  # does not get smaller
    given[7] = item("kernel01", "s3", blob=b"")
    given[8] = item("kernel02", "s0", blob=given[9].blob)  # as another's
    with opened(tmp_path / "a.pack", pack_bytes(given, codec)) as pack:
        assert len(pack) == pack.verify() == len(given)
        assert list(pack) == [i.entry for i in given]
        assert [pack.read(n) for n in range(len(pack))] == [i.blob for i in given]
        used = {pack.sizes(n)[2] for n in range(len(pack))}
        assert used == {"none", codec}
        assert pack.sizes(8)[:2] == pack.sizes(9)[:2]


def test_a_key_may_be_any_word(tmp_path: Path) -> None:
    given = item(key="variant 1")
    with opened(tmp_path / "a.pack", pack_bytes([given])) as pack:
        assert pack.manifest(0).key == "variant 1"


def test_an_empty_pack_is_one(tmp_path: Path) -> None:
    with opened(tmp_path / "a.pack", pack_bytes([])) as pack:
        assert (len(pack), pack.verify()) == (0, 0)


def test_equal_inputs_give_equal_packs_whatever_their_order() -> None:
    given = items()
    assert pack_bytes(given) == pack_bytes(reversed(given)) == pack_bytes(iter(given))


def test_variants_stay_in_their_order(tmp_path: Path) -> None:
    variants = [item(path=f"interp-kir/shift/i32.{n}.kir", subgroup=n) for n in (9, 1, 5)]
    with opened(tmp_path / "a.pack", pack_bytes([item("zeta"), *variants])) as pack:
        assert [entry.manifest.subgroup for entry in pack] == [9, 1, 5, None]


def test_one_entry_is_read_without_the_others(tmp_path: Path) -> None:
    """Whatever the other blobs and their manifests have become."""
    given = [item(f"k{n:03}", blob=os.urandom(256)) for n in range(3 * format.BLOCK)]
    with opened(tmp_path / "a.pack", pack_bytes(given, "none")) as pack:
        last = pack._offsets[-2]
        (tmp_path / "a.pack").write_bytes(bytes(last) + (tmp_path / "a.pack").read_bytes()[last:])
        assert pack.read(len(pack) - 1) == given[-1].blob
        assert pack.entry(len(pack) - 1) == given[-1].entry
        with pytest.raises(PackCorrupt, match="wrong content"):
            pack.read(0)


def test_opening_decodes_no_manifest_and_no_blob(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = items(200)
    decoded: list[str] = []

    def counted(codec: int, data: bytes, size: int, where: str, dictionary: bytes = b"") -> bytes:
        decoded.append(where.removeprefix(str(tmp_path)))
        return decode(codec, data, size, where, dictionary)

    decode = codecs.decode
    monkeypatch.setattr(codecs, "decode", counted)
    with opened(tmp_path / "a.pack", pack_bytes(given)) as pack:
        assert decoded == ["/a.pack: its names"]
        assert pack.read(100) == given[100].blob
        pack.read(101)
        assert pack.entry(100) == given[100].entry
        pack.entry(101)
    name = "/a.pack/interp-kir/kernel25"
    assert decoded[1:] == [
        "/a.pack: its dictionary",
        f"{name}/s0.kir",
        f"{name}/s1.kir",
        "/a.pack: manifests 3",
    ]


@pytest.mark.parametrize("codec", ["deflate", "zstd"])
def test_a_pack_is_no_longer_than_its_artifacts_by_themselves(require: Any, codec: str) -> None:
    if codec == "zstd":
        require("zstandard")
    noise = [item(f"k{n:03}", blob=b"%d " % n + os.urandom(1500)) for n in range(200)]
    assert len(pack_bytes(noise, codec)) <= sum(len(i.blob) + 200 for i in noise)
    given = items(200)
    alone = sum(len(codecs.encode(codecs.CODECS[codec], i.blob)) for i in given)
    assert len(pack_bytes(given, codec)) <= 1.05 * alone


def test_every_byte_is_covered_by_a_digest(tmp_path: Path) -> None:
    """Padding and what is reserved too: each byte changed is a typed error."""
    path = tmp_path / "a.pack"
    data = pack_bytes([item("one"), item("two", blob=b"ab" * 50), item("three", blob=b"x")])
    odd: list[int] = []
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        try:
            with opened(path, bytes(bad)) as pack:
                pack.verify()
        except PackError:
            continue
        odd.append(at)
    assert odd == []
    with opened(path, data) as pack:
        assert pack.verify() == 3


def test_a_pack_of_another_length_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "a.pack", pack_bytes(items(4))
    for size in [0, 1, 7, 8, 40, 127, 128, 129, 500, len(data) - 64, len(data) - 1]:
        with pytest.raises((PackCorrupt, NotAPack)):
            opened(path, data[:size])
    for more in (b"\0", bytes(64), data):
        with pytest.raises(PackCorrupt, match="longer than it was made"):
            opened(path, data + more)


def test_other_files_are_told_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    with pytest.raises(NotAPack, match="a pack for web pages"):
        opened(path, b'{"bytes":12,"index_bytes":3}')
    with pytest.raises(NotAPack, match="ELF"):
        opened(path, b"\x7fELF" + bytes(200))
    with pytest.raises(NotAPack):  # a conversion of line ends
        opened(path, pack_bytes(items(4)).replace(b"\r\n", b"\n"))
    with pytest.raises(PackMissing, match="No such file"):
        Pack.open(tmp_path / "nowhere.pack")
    with pytest.raises(PackMissing, match="null"):
        Pack.open("a\0.pack")
    with pytest.raises(PackMissing, match="cannot be mapped"):
        Pack.open(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PackError):
        Pack.open(tmp_path / "pipe")


@pytest.mark.parametrize(("abi", "advice"), [(2, "install a newer"), (0, "pack the artifacts")])
def test_a_pack_of_another_abi_names_both(tmp_path: Path, abi: int, advice: str) -> None:
    data = pack_bytes(items(4))
    table, _ = format.read_header(data, len(data), "")
    end = format.HEADER_BYTES + table
    other = format.header(abi, len(data), data[format.HEADER_BYTES : end]) + data[128:]
    with pytest.raises(PackVersion, match=f"expected ABI 1, got ABI {abi}; {advice}"):
        opened(tmp_path / "a.pack", other)
    # Whatever else a later layout has in its header.
    bare = format.MAGIC + struct.pack("<I", abi) + b"\xff" * 200
    with pytest.raises(PackVersion):
        opened(tmp_path / "a.pack", bare)


def test_swapped_blobs_are_found(tmp_path: Path) -> None:
    given = [item(f"k{n}", blob=bytes([n]) * 64) for n in range(4)]
    data = pack_bytes(given, "none")
    first = len(data) - 4 * 64
    swapped = (
        data[:first]
        + data[first + 64 : first + 128]
        + data[first : first + 64]
        + data[first + 128 :]
    )
    with opened(tmp_path / "a.pack", swapped) as pack:
        assert pack.read(2) == given[2].blob
        for number in (0, 1):
            with pytest.raises(PackCorrupt, match="blob with wrong content"):
                pack.read(number)


def test_a_file_that_is_cut_while_open_ends_no_process(tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    with opened(path, pack_bytes(items(), "none")) as pack:
        os.truncate(path, 4096)
        with pytest.raises(PackCorrupt, match="file changed while open"):
            pack.read(39)
    with pytest.raises(PackMissing, match="closed"):
        pack.read(0)


def test_writers_refuse_what_they_were_given_wrongly() -> None:
    entry, blob = item()
    with pytest.raises(PackConflict, match="not its manifest's"):
        pack_bytes([Item(entry, blob + b"x")])
    with pytest.raises(PackConflict, match="empty name"):
        pack_bytes([item("", path="a.kir")])


def test_packs_are_merged_and_conflicts_are_named(tmp_path: Path) -> None:
    first, second, other = items(8), items(12)[4:], [item("kernel00", "s0", blob=b"other")]
    for name, given in (("a", first), ("b", second), ("c", other)):
        write_pack(tmp_path / f"{name}.pack", given)
    a, b, c = (Pack.open(tmp_path / f"{name}.pack") for name in "abc")
    assert pack_bytes(merged([a, b])) == pack_bytes(merged([b, a])) == pack_bytes(items(12))
    with pytest.raises(PackConflict, match=r"kernel00/s0.kir is another artifact in .*a.pack"):
        merged([a, c])
