"""Keys for signing packs: Ed25519, one file each, with the time for which they are valid.

    {"kind": "gristmill public key", "schema": 1, "name": NAME, "public": BASE64,
     "not_before": "2026-11-30T00:00:00Z", "not_after": "2027-11-30T00:00:00Z"}

A private key's file has `"kind": "gristmill private key"` and `"private": BASE64` too, and is for
its owner alone to read. Whoever checks signatures decides by the public keys he holds: their
validity is what his own file says.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..files import read_small, write_atomic
from .errors import BadFile, KeyExpired, TrustMissing

SCHEMA = 1
PUBLIC, PRIVATE = "gristmill public key", "gristmill private key"
SUFFIX = ".pub"
VARIABLE = "GRISTMILL_TRUSTED_KEYS"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MOST = 1 << 16  # bytes of a file
_LENGTH = 32  # bytes of a key
_CLOSE = "chmod 600 it, and make a new key if somebody else may have read it"


@dataclass(frozen=True, slots=True)
class Key:
    """A key. private: 32 bytes, or None where only signatures can be checked."""

    name: str
    public: bytes
    not_before: datetime
    not_after: datetime
    private: bytes | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """sha256 of the public key, in hexadecimal."""
        return hashlib.sha256(self.public).hexdigest()

    def check_time(self, now: datetime) -> None:
        """KeyExpired unless the key is valid now."""
        if not self.not_before <= now <= self.not_after:
            when = "expired" if now > self.not_after else "is not valid yet"
            raise KeyExpired(
                f"the key {self.name!r} {when}: it is valid from {written(self.not_before)} to "
                f"{written(self.not_after)}, now is {written(now)}",
                do="sign with a key that is valid, and hand out its public key",
            )

    def sign(self, data: bytes) -> bytes:
        """The signature of some bytes, 64 bytes. TrustMissing."""
        if self.private is None:
            raise TrustMissing(f"the key {self.name!r} is a public one", do="give the private key")
        return bytes(_ed25519().Ed25519PrivateKey.from_private_bytes(self.private).sign(data))

    def signed(self, data: bytes, signature: bytes) -> bool:
        """Whether the signature is of this key over these bytes. TrustMissing."""
        module = _ed25519()
        from cryptography.exceptions import InvalidSignature

        try:
            module.Ed25519PublicKey.from_public_bytes(self.public).verify(signature, data)
        except InvalidSignature:
            return False
        return True


def new_key(name: str, days: int, now: datetime | None = None) -> Key:
    """A new key that is valid from now on for so many days. TrustMissing."""
    module = _ed25519()
    begin = (now or datetime.now(UTC)).replace(microsecond=0)
    made = module.Ed25519PrivateKey.generate()
    public, private = made.public_key().public_bytes_raw(), made.private_bytes_raw()
    return Key(name, public, begin, begin + timedelta(days=days), private)


def write_key(path: Path, key: Key) -> None:
    """Write the public part, or, where the path does not end in .pub, all of it for its owner.

    FileExistsError where a private key would be overwritten.
    """
    public = path.suffix == SUFFIX
    data = {
        "kind": PUBLIC if public else PRIVATE,
        "schema": SCHEMA,
        "name": key.name,
        "public": base64.b64encode(key.public).decode(),
        "not_before": written(key.not_before),
        "not_after": written(key.not_after),
    }
    if public:
        write_atomic(path, json.dumps(data, indent=1).encode() + b"\n")
        return
    if key.private is None:
        raise TrustMissing(f"the key {key.name!r} has no private part", path)
    data["private"] = base64.b64encode(key.private).decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "wb") as out:
        out.write(json.dumps(data, indent=1).encode() + b"\n")


def read_key(path: str | os.PathLike[str], wait: bool = True) -> Key:
    """A key of a file; wait: or of a pipe that a shell made of a secret. BadFile."""
    data = read_json(path, _MOST, wait)
    names = {"kind", "schema", "name", "public", "not_before", "not_after"}
    if not isinstance(data, dict) or data.get("kind") not in (PUBLIC, PRIVATE):
        raise BadFile(f"not a key; expected kind {PUBLIC!r} or {PRIVATE!r}", path)
    private = data["kind"] == PRIVATE
    if data.get("schema") != SCHEMA:
        raise BadFile(f"key of schema {data.get('schema')!r:.40}, this reads {SCHEMA}", path)
    if data.keys() != names | ({"private"} if private else set()):
        raise BadFile(f"wrong fields of a key; expected {', '.join(sorted(names))}", path)
    try:
        key = Key(
            data["name"],
            _bytes(data["public"]),
            _time(data["not_before"]),
            _time(data["not_after"]),
            _bytes(data["private"]) if private else None,
        )
    except (ValueError, TypeError) as error:
        raise BadFile(f"wrong field of a key: {error}", path) from error
    if not isinstance(key.name, str) or not key.name.isprintable() or len(key.name) > 255:
        raise BadFile(f"a key has a name of one line, got {key.name!r:.60}", path)
    return key


def private_key(path: str | os.PathLike[str]) -> Key:
    """The key of a file to sign with. BadFile: others than its owner may read it, or its parts are
    of two keys. TrustMissing: it is a public one."""
    key = read_key(path)
    if key.private is None:
        raise TrustMissing(f"the key {key.name!r} is a public one", path, "give the private key")
    state = os.stat(path)
    if stat.S_ISREG(state.st_mode) and state.st_mode & 0o077:
        mode = f"{stat.S_IMODE(state.st_mode):o}"
        raise BadFile(f"a private key that others may read or write (mode {mode})", path, _CLOSE)
    made = _ed25519().Ed25519PrivateKey.from_private_bytes(key.private)
    if made.public_key().public_bytes_raw() != key.public:
        raise BadFile("its private and its public part are of two keys", path, "make a new one")
    return key


def trusted_keys(paths: Iterable[str | os.PathLike[str]]) -> tuple[Key, ...]:
    """The public keys of some files and folders (those that end in .pub). BadFile, TrustMissing
    where there are none."""
    found: dict[str, Key] = {}
    given = [Path(path) for path in paths]
    for place in given:
        folder = place.is_dir()  # in which no one has named a pipe
        files = sorted(place.glob(f"*{SUFFIX}")) if folder else [place]
        for file in files:
            key = read_key(file, wait=not folder)
            found[key.id] = key
    if not found:
        where = ", ".join(map(str, given)) or "nowhere"
        raise TrustMissing(
            f"no public keys to trust (looked {'in ' if given else ''}{where})",
            do=f"name files or folders of .pub files, or set {VARIABLE}",
        )
    return tuple(found.values())


def stated_keys(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The files and folders that $GRISTMILL_TRUSTED_KEYS names."""
    return [path for path in environment.get(VARIABLE, "").split(os.pathsep) if path]


def written(time: datetime) -> str:
    """A time as files and messages have it, in UTC."""
    return time.astimezone(UTC).strftime(_TIME)


def read_json(path: str | os.PathLike[str], most: int, wait: bool = False) -> Any:
    """A small JSON file; wait: also out of a pipe. BadFile."""
    try:
        with contextlib.nullcontext() if not wait else open(path, "rb") as file:
            text = file.read(most + 1) if file else read_small(path, most)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise BadFile(f"cannot be read: {reason}", path) from error
    if len(text) > most:
        raise BadFile(f"more than {most} bytes", path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # also bytes and numbers that are none
        raise BadFile(f"not JSON ({error})", path) from error


def _bytes(text: Any) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError(f"not base64 ({error})") from error
    if len(found) != _LENGTH:
        raise ValueError(f"{len(found)} bytes of key, expected {_LENGTH}")
    return found


def _time(text: str) -> datetime:
    return datetime.strptime(text, _TIME).replace(tzinfo=UTC)


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise TrustMissing(
            "signatures need the package cryptography", do="pip install 'gristmill[trust]'"
        ) from error
    return ed25519
