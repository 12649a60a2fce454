"""The entry of an action: output names with their digests, in one text that holds its own digest.

    SHA256 of all that follows LF
    {"key": KEY, "outputs": {NAME: {"sha256": DIGEST, "size": BYTES}...}}
    LF and the bytes of the outputs, in order of their names (where the entry carries them)

The key stands in the entry, so that an entry under another's name is told apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

LARGEST = 1 << 28  # bytes of one output; whoever announces more is not believed
LONGEST = 1 << 20  # bytes of an entry without outputs, and of an action's text
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Content:
    """What identifies an output's bytes: sha256 in hexadecimal and their number."""

    sha256: str
    size: int

    def fits(self, data: bytes) -> bool:
        """Whether these are the bytes."""
        return len(data) == self.size and digest(data) == self.sha256


def digest(data: bytes) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    """Whether a text is a digest, and so can stand in a path."""
    return _DIGEST.fullmatch(text) is not None


def contents_of(outputs: Mapping[str, bytes]) -> dict[str, Content]:
    """What identifies each output, in order of their names."""
    return {name: Content(digest(data), len(data)) for name, data in sorted(outputs.items())}


def encode_body(key: str, contents: Mapping[str, Content]) -> bytes:
    """The JSON of an entry."""
    outputs = {name: {"sha256": c.sha256, "size": c.size} for name, c in contents.items()}
    plain = {"key": key, "outputs": outputs}
    return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()


def decode_body(body: bytes, key: str) -> dict[str, Content] | None:
    """Output name -> content of an entry's JSON; None where it has another form or key."""
    try:
        data = json.loads(body)
        if data["key"] != key:
            return None
        found = {name: Content(o["sha256"], o["size"]) for name, o in data["outputs"].items()}
        # A digest is the name of a file: anything else could name another.
        fine = all(
            _DIGEST.fullmatch(c.sha256) and type(c.size) is int and 0 <= c.size <= LARGEST
            for c in found.values()
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return found if fine else None


def encode(key: str, outputs: Mapping[str, bytes], carry: bool = False) -> bytes:
    """The text of an entry. carry: with the bytes of the outputs."""
    body = encode_body(key, contents_of(outputs))
    if carry:
        body += b"\n" + b"".join(outputs[name] for name in sorted(outputs))
    return digest(body).encode() + b"\n" + body


def decode(text: bytes, key: str) -> tuple[dict[str, Content], bytes | None] | None:
    """The contents that an entry lists and the bytes that it carries (None where it carries none);
    None where it is damaged or of another action."""
    head, _, body = text.partition(b"\n")
    if digest(body).encode() != head:
        return None
    listed, newline, carried = body.partition(b"\n")
    contents = decode_body(listed, key)
    if contents is None:
        return None
    return contents, (carried if newline else None)


def carried_outputs(contents: Mapping[str, Content], carried: bytes) -> dict[str, bytes] | None:
    """The outputs that an entry carries, verified; None where they are not those it lists."""
    found, at = {}, 0
    for name in sorted(contents):
        found[name] = carried[at : at + contents[name].size]
        at += contents[name].size
    fine = at == len(carried) and all(contents[name].fits(data) for name, data in found.items())
    return found if fine else None
