"""Signatures of packs: only a trusted, valid key's signature over this very pack is taken."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.pack.errors import PackError
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import write_pack
from gristmill.store.trust import provenance, signing
from gristmill.store.trust.errors import (
    BadFile,
    ForeignSignature,
    ForgedSignature,
    KeyExpired,
    TrustError,
    TrustMissing,
    Unsigned,
)
from gristmill.store.trust.keys import (
    Key,
    new_key,
    private_key,
    read_key,
    stated_keys,
    trusted_keys,
    write_key,
)
from gristmill.store.trust.signing import sign_pack, signature_file, verify_pack
from toy_packs import item, items

ORIGIN = provenance.Origin(
    provenance.BUILD,
    {"target": "interp-kir", "checks": False},
    [("source", {"gitCommit": "0" * 40}, {"dirty": True}), ("interp", {"sha256": "1" * 64}, {})],
    provenance.LOCAL,
    {"gristmill": "0"},
    ("llvmlite 0.50.0",),
)


@pytest.fixture(autouse=True)
def needs_cryptography(require: Callable[..., None]) -> None:
    require("cryptography")


@pytest.fixture
def key() -> Key:
    return new_key("release", 30)


@pytest.fixture
def signed(tmp_path: Path, key: Key) -> Path:
    """A pack with its signature."""
    path = tmp_path / "a.pack"
    write_pack(path, items(12))
    sign_pack(path, provenance.statement(path, ORIGIN), key)
    return path


def edited(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the envelope of a pack's signatures."""
    file = signature_file(path)
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))


def test_a_signed_pack_says_who_made_it_and_from_what(signed: Path, key: Key) -> None:
    found = verify_pack(signed, [new_key("other", 1), key])
    with Pack.open(signed) as pack:
        assert (found.key.name, found.digest) == ("release", pack.digest)
        signing.check_file(pack, found)
    record = found.statement
    assert record["predicateType"] == "https://slsa.dev/provenance/v1"
    assert record["subject"][0]["name"] == "a.pack"
    lines = provenance.told(record)
    assert f"source {'0' * 40} (dirty: yes)" in lines
    assert {f"builder {provenance.LOCAL}", "tool llvmlite 0.50.0", "checks no"} <= set(lines)


def test_what_is_signed_is_the_encoding_that_dsse_defines(signed: Path, key: Key) -> None:
    assert signing.encoding(b"hello world", "http://example.com/HelloWorld") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    data = json.loads(signature_file(signed).read_text())
    payload = base64.b64decode(data["payload"])
    assert data["payloadType"] == "application/vnd.in-toto+json"
    assert key.signed(signing.encoding(payload), base64.b64decode(data["signatures"][0]["sig"]))


def test_a_signature_of_nobody_or_of_others_is_refused(signed: Path, tmp_path: Path) -> None:
    with pytest.raises(ForeignSignature, match="none of which is trusted"):
        verify_pack(signed, [new_key("release", 30)])
    signature_file(signed).unlink()
    with pytest.raises(Unsigned, match="gristmill pack sign"):
        verify_pack(signed, [new_key("release", 30)])


def test_a_forged_signature_is_refused(signed: Path, key: Key) -> None:
    forger = new_key("release", 30)
    payload = base64.b64decode(json.loads(signature_file(signed).read_text())["payload"])
    forged = base64.b64encode(forger.sign(signing.encoding(payload))).decode()
    edited(signed, lambda d: d["signatures"][0].update(sig=forged))
    with pytest.raises(ForgedSignature, match="not of the key 'release'"):
        verify_pack(signed, [key])


@pytest.mark.parametrize("at", range(0, 64, 9))
def test_every_part_of_a_signature_counts(signed: Path, key: Key, at: int) -> None:
    def flip(data: dict[str, Any]) -> None:
        raw = bytearray(base64.b64decode(data["signatures"][0]["sig"]))
        raw[at] ^= 1
        data["signatures"][0]["sig"] = base64.b64encode(raw).decode()

    edited(signed, flip)
    with pytest.raises(ForgedSignature):
        verify_pack(signed, [key])


def test_a_changed_record_is_refused(signed: Path, key: Key) -> None:
    def clean(data: dict[str, Any]) -> None:
        payload = base64.b64decode(data["payload"]).replace(b'"dirty": true', b'"dirty": false')
        data["payload"] = base64.b64encode(payload).decode()

    edited(signed, clean)
    with pytest.raises(ForgedSignature):
        verify_pack(signed, [key])


def test_a_signature_of_another_pack_is_refused(signed: Path, key: Key, tmp_path: Path) -> None:
    other = tmp_path / "b.pack"
    write_pack(other, items(8))
    signature_file(other).write_bytes(signature_file(signed).read_bytes())
    with pytest.raises(ForgedSignature, match="record is of another pack"):
        verify_pack(other, [key])
    with pytest.raises(ForgedSignature, match="record is of another pack"):
        sign_pack(other, provenance.statement(signed, ORIGIN), key)


def test_a_pack_that_was_changed_is_refused_before_its_signature(signed: Path, key: Key) -> None:
    """An artifact exchanged, with all digests made right again, is another pack."""
    given = items(12)
    given[5] = item("kernel01", "s1", blob=b"evil")
    write_pack(signed, given)
    with pytest.raises(ForgedSignature):
        verify_pack(signed, [key])
    data = bytearray(signed.read_bytes())
    data[200] ^= 1
    signed.write_bytes(data)
    with pytest.raises(PackError):
        verify_pack(signed, [key])


def test_a_key_has_its_time(signed: Path, key: Key) -> None:
    late, early = key.not_after + timedelta(seconds=1), key.not_before - timedelta(seconds=1)
    with pytest.raises(KeyExpired, match=r"'release' expired: it is valid from .* to .*, now"):
        verify_pack(signed, [key], late)
    with pytest.raises(KeyExpired, match="is not valid yet"):
        verify_pack(signed, [key], early)
    assert verify_pack(signed, [key], key.not_after).key is key
    old = new_key("old", 30, datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(KeyExpired):
        sign_pack(signed, provenance.statement(signed, ORIGIN), old)


def test_a_second_key_signs_beside_the_first(signed: Path, key: Key) -> None:
    second = new_key("second", 300)
    statement = provenance.statement(signed, ORIGIN)
    sign_pack(signed, statement, second)
    sign_pack(signed, statement, second)
    assert len(json.loads(signature_file(signed).read_text())["signatures"]) == 2
    assert verify_pack(signed, [key]).key is key
    assert verify_pack(signed, [second]).key is second
    late = key.not_after + timedelta(days=1)
    assert verify_pack(signed, [key, second], late).key is second


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.clear(),
        lambda d: d.update(more=1),
        lambda d: d.update(payloadType="text/plain"),
        lambda d: d.update(payload=7),
        lambda d: d.update(payload="***"),
        lambda d: d.update(payload=base64.b64encode(b"{}").decode()),
        lambda d: d.update(signatures={}),
        lambda d: d.update(signatures=d["signatures"] * 65),
        lambda d: d.update(signatures=[7]),
        lambda d: d["signatures"][0].pop("keyid"),
        lambda d: d["signatures"][0].update(sig="*"),
        lambda d: d["signatures"][0].update(sig=""),
    ],
)
def test_odd_signature_files_are_typed_errors(
    signed: Path, key: Key, change: Callable[[dict[str, Any]], Any]
) -> None:
    edited(signed, change)
    with pytest.raises(TrustError):
        verify_pack(signed, [key])


@pytest.mark.parametrize("data", [b"", b"\xff", b"[" * 100000, b"7", b" " * (5 << 20)])
def test_signature_files_that_are_no_json_are_typed_errors(
    signed: Path, key: Key, data: bytes
) -> None:
    signature_file(signed).write_bytes(data)
    with pytest.raises(BadFile):
        verify_pack(signed, [key])


def test_keys_are_files(tmp_path: Path, key: Key) -> None:
    write_key(tmp_path / "release.key", key)
    write_key(tmp_path / "release.pub", key)
    assert (tmp_path / "release.key").stat().st_mode & 0o777 == 0o600
    assert read_key(tmp_path / "release.key") == key
    public = read_key(tmp_path / "release.pub")
    assert (public.private, public.public, public.id) == (None, key.public, key.id)
    assert b"private" not in (tmp_path / "release.pub").read_bytes()
    with pytest.raises(FileExistsError):
        write_key(tmp_path / "release.key", new_key("release", 1))
    with pytest.raises(TrustMissing, match="is a public one"):
        public.sign(b"")
    assert repr(key.private) not in repr(key)
    assert [k.name for k in trusted_keys([tmp_path])] == ["release"]
    assert [k.id for k in trusted_keys([tmp_path / "release.pub", tmp_path])] == [key.id]
    with pytest.raises(TrustMissing, match="no public keys"):
        trusted_keys([])
    assert stated_keys({"GRISTMILL_TRUSTED_KEYS": "a:b/c"}) == ["a", "b/c"]
    with pytest.raises(BadFile, match="cannot be read"):
        trusted_keys([tmp_path / "nowhere.pub"])


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "word"},
        {"schema": 2},
        {"public": "AAAA"},
        {"public": 7},
        {"not_after": "tomorrow"},
        {"not_after": None},
        {"name": 7},
        {"name": "a\nb"},
        {"more": 1},
    ],
)
def test_odd_keys_are_typed_errors(tmp_path: Path, key: Key, change: dict[str, Any]) -> None:
    path = tmp_path / "release.pub"
    write_key(path, key)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadFile):
        read_key(path)


def test_nothing_is_trusted_without_the_package(
    signed: Path, key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(TrustMissing, match=r"pip install 'gristmill\[trust\]'"):
        verify_pack(signed, [key])
    with pytest.raises(TrustMissing):
        new_key("release", 1)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o620, 0o604, 0o602, 0o666, 0o601])
def test_a_private_key_that_others_may_read_is_refused(tmp_path: Path, key: Key, mode: int) -> None:
    path = tmp_path / "release.key"
    write_key(path, key)
    path.chmod(mode)
    with pytest.raises(BadFile, match=f"others may read or write .mode {mode:o}.; chmod 600"):
        private_key(path)
    for own in (0o600, 0o400):
        path.chmod(own)
        assert private_key(path) == key


def test_a_private_key_with_the_public_part_of_another_signs_nothing(
    tmp_path: Path, key: Key
) -> None:
    """Nobody could verify what it signs."""
    path = tmp_path / "release.key"
    write_key(path, key)
    other = base64.b64encode(new_key("other", 1).public).decode()
    path.write_text(json.dumps({**json.loads(path.read_text()), "public": other}))
    with pytest.raises(BadFile, match="are of two keys"):
        private_key(path)


def test_a_key_comes_out_of_a_pipe(tmp_path: Path, key: Key) -> None:
    """As shells make one of a secret: `--key <(show-secret)`."""
    write_key(tmp_path / "release.key", key)
    data = (tmp_path / "release.key").read_bytes()
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writer, data), os.close(writer)))
    thread.start()
    try:
        assert read_key(f"/dev/fd/{reader}") == key
    finally:
        thread.join()
        os.close(reader)


@pytest.mark.parametrize("text", ['{"schema": %s}' % ("1" * 5000), "1" * 5000, "NaN"])
def test_a_number_of_any_length_is_a_typed_error(
    tmp_path: Path, signed: Path, key: Key, text: str
) -> None:
    (tmp_path / "odd.pub").write_text(text)
    with pytest.raises(BadFile):
        read_key(tmp_path / "odd.pub")
    signature_file(signed).write_text(text)
    with pytest.raises(BadFile):
        verify_pack(signed, [key])


def test_a_pipe_among_the_trusted_keys_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.pub")
    with pytest.raises(BadFile, match="cannot be read"):
        trusted_keys([tmp_path])


def test_a_pipe_in_place_of_a_signature_or_record_does_not_hang(signed: Path, key: Key) -> None:
    for file in (signature_file(signed), provenance.statement_file(signed)):
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    with pytest.raises(BadFile, match="not a file"):
        verify_pack(signed, [key])
    with pytest.raises(BadFile, match="not a file"):
        provenance.read_record(signed)


def test_a_record_of_gigabytes_is_not_read(signed: Path) -> None:
    file = provenance.statement_file(signed)
    file.write_bytes(b" ")
    os.truncate(file, 1 << 40)
    with pytest.raises(BadFile, match="more than 2097152 bytes"):
        provenance.read_record(signed)
