"""Signatures of packs: one file beside each, NAME.pack.sig.

It is an envelope as DSSE v1 defines it (JSON): its payload is an in-toto statement, the provenance
record, whose subject is the pack by two digests; each signature is Ed25519 over the payload's
pre-authentication encoding. `gristmillTable`, the digest of header and table, covers every byte of
the pack, so that the runtime need not read it; `sha256` of the whole file is for everybody's tools.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..files import write_atomic
from ..pack.reading import Pack
from .errors import BadFile, ForeignSignature, ForgedSignature, KeyExpired, Unsigned
from .keys import Key, read_json
from .provenance import FILE, TABLE, read_statement

SUFFIX = ".sig"
PAYLOAD = "application/vnd.in-toto+json"
_MOST = 1 << 22  # bytes of an envelope
_MOST_SIGNATURES = 64


@dataclass(frozen=True, slots=True)
class Verified:
    """What a trusted signature says. statement: the provenance record as it was signed."""

    path: str
    digest: str
    key: Key
    statement: dict[str, Any]


def signature_file(pack: str | os.PathLike[str]) -> Path:
    """Where the signatures of a pack stand."""
    return Path(f"{os.fspath(pack)}{SUFFIX}")


def encoding(payload: bytes, kind: str = PAYLOAD) -> bytes:
    """DSSE's pre-authentication encoding: what is signed."""
    word = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(word), word, len(payload), payload)


def sign_pack(path: str | os.PathLike[str], statement: bytes, key: Key) -> Path:
    """Sign a pack with its provenance record; gives the file, which holds earlier signatures of
    other keys as well where they are of the same record.

    KeyExpired, TrustMissing, ForgedSignature: the record is of another pack. PackError.
    """
    key.check_time(datetime.now(UTC))
    with Pack.open(path) as pack:
        _check_subject(read_statement(statement, path), pack.digest, path)
    made = {
        "keyid": key.id,
        "sig": base64.b64encode(key.sign(encoding(statement))).decode(),
    }
    file = signature_file(path)
    others: list[dict[str, str]] = []
    if file.exists():
        payload, signatures = _envelope(file)
        if payload == statement:
            others = [s for s in signatures if s["keyid"] != key.id]
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(statement).decode(),
        "signatures": [*others, made],
    }
    write_atomic(file, json.dumps(envelope, indent=1, sort_keys=True).encode() + b"\n")
    return file


def verify_pack(
    path: str | os.PathLike[str], keys: Sequence[Key], now: datetime | None = None
) -> Verified:
    """Open a pack, which checks its table, and hold its signature against trusted keys.

    PackError as `Pack.open`; TrustError as `verify_open`.
    """
    with Pack.open(path) as pack:
        return verify_open(pack, keys, now)


def verify_open(pack: Pack, keys: Sequence[Key], now: datetime | None = None) -> Verified:
    """The first signature of a trusted key that is right, of an open pack.

    Unsigned, ForeignSignature, ForgedSignature, KeyExpired, BadFile, TrustMissing.
    """
    file = signature_file(pack.path)
    if not file.exists():
        raise Unsigned("no signature", file, "sign it with gristmill pack sign, or fetch it too")
    payload, signatures = _envelope(file)
    trusted = {key.id: key for key in keys}
    known = [s for s in signatures if s["keyid"] in trusted]
    if not known:
        names = ", ".join(s["keyid"][:16] for s in signatures) or "nobody"
        raise ForeignSignature(f"signed by {names}, none of which is trusted", file)
    statement = read_statement(payload, file)
    late = None
    for signature in known:
        key = trusted[signature["keyid"]]
        if not key.signed(encoding(payload), _decoded(signature["sig"], file)):
            raise ForgedSignature(f"the signature is not of the key {key.name!r}", file)
        try:
            key.check_time(now or datetime.now(UTC))
        except KeyExpired as error:
            late = error
            continue
        _check_subject(statement, pack.digest, file)
        return Verified(str(pack.path), pack.digest, key, statement)
    assert late is not None
    raise late


def is_of(file: Path, digest: str) -> bool:
    """Whether a file holds signatures of the pack of that digest, whoever made them."""
    try:
        record = read_statement(_envelope(file)[0], file)
    except BadFile:
        return False
    return bool(record["subject"][0]["digest"][TABLE] == digest)


def check_file(pack: Pack, verified: Verified) -> None:
    """ForgedSignature if the digest of the whole file is not the signed one; reads all of it."""
    signed = verified.statement["subject"][0]["digest"].get(FILE)
    if signed is not None and (found := pack.file_digest()) != signed:
        raise ForgedSignature(f"the signed file has sha256 {signed}, this one {found}", pack.path)


def _check_subject(statement: dict[str, Any], digest: str, where: str | os.PathLike[str]) -> None:
    signed = statement["subject"][0]["digest"][TABLE]
    if signed != digest:
        raise ForgedSignature(
            f"the record is of another pack: of digest {signed}, this pack has {digest}",
            where,
            "fetch the pack and its signature again",
        )


def _envelope(file: Path) -> tuple[bytes, list[dict[str, str]]]:
    """Payload and signatures of an envelope. BadFile."""
    data = read_json(file, _MOST)
    fine = isinstance(data, dict) and data.keys() == {"payloadType", "payload", "signatures"}
    if not fine or data["payloadType"] != PAYLOAD:
        raise BadFile(f"not a signature; expected an envelope of {PAYLOAD}", file)
    signatures = data["signatures"]
    if not isinstance(signatures, list) or len(signatures) > _MOST_SIGNATURES:
        raise BadFile(f"expected a list of at most {_MOST_SIGNATURES} signatures", file)
    for signature in signatures:
        if not isinstance(signature, dict) or not all(
            isinstance(signature.get(name), str) for name in ("keyid", "sig")
        ):
            raise BadFile("a signature has a keyid and a sig", file)
    return _decoded(data["payload"], file), signatures


def _decoded(text: Any, file: Path) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadFile(f"not base64 ({error})", file) from error
