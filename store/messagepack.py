"""Reading MessagePack, the binary form of trees in which AMD code objects describe themselves.

Its specification: msgpack/spec.md of the project of that name. Extension types are refused.
"""

from __future__ import annotations

import struct
from typing import Any

_DEPTH = 16  # of maps and lists inside each other; nothing read here has more than 4
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
# What kind of thing has its length in so many bytes behind the first.
_LONG = {
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4), 0xD9: ("text", 1),
    0xDA: ("text", 2), 0xDB: ("text", 4), 0xDC: ("list", 2), 0xDD: ("list", 4),
    0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip


class MessagePackError(ValueError):
    """Bytes that are not one value in MessagePack: what, and where."""


def unpack(data: bytes) -> Any:
    """One value in MessagePack, which takes up all of `data`. MessagePackError otherwise."""
    try:
        value, end = _value(data, 0, 0)
    except (IndexError, KeyError, TypeError, UnicodeDecodeError, struct.error) as error:
        raise MessagePackError(f"not MessagePack: {error!r}") from error
    if end != len(data):
        raise MessagePackError(f"MessagePack ends at byte {end} of {len(data)}")
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEPTH:
        raise MessagePackError(f"MessagePack is nested deeper than {_DEPTH}")
    tag = data[at]
    at += 1
    if tag < 0x80 or tag >= 0xE0:
        return (tag if tag < 0x80 else tag - 256), at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        form = _NUMBERS[tag]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if tag < 0xC0:
        kind = "map" if tag < 0x90 else "list" if tag < 0xA0 else "text"
        count = tag & (31 if kind == "text" else 15)
    else:
        kind, width = _LONG[tag]
        count = int.from_bytes(data[at : at + width], "big")
        at += width
    if at + count > len(data):  # an element takes a byte at least
        raise MessagePackError(f"MessagePack: a {kind} of {count} at byte {at} of {len(data)}")
    if kind in ("text", "bytes"):
        raw = data[at : at + count]
        return (raw.decode() if kind == "text" else raw), at + count
    return _gather(data, at, depth + 1, kind, count)


def _gather(data: bytes, at: int, depth: int, kind: str, count: int) -> tuple[Any, int]:
    flat = []
    for _ in range(count * (2 if kind == "map" else 1)):
        value, at = _value(data, at, depth)
        flat.append(value)
    if kind == "list":
        return flat, at
    found = dict(zip(flat[::2], flat[1::2], strict=True))
    if len(found) != count:
        raise MessagePackError("MessagePack: a map has a key twice")
    return found, at
