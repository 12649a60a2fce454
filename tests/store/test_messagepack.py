"""Every form of MessagePack is read; what is none is refused."""

from __future__ import annotations

import pytest

from gristmill.store.messagepack import MessagePackError, unpack

VALUES = {
    "07": 7, "ff": -1, "e0": -32, "c0": None, "c2": False, "c3": True,
    "cc80": 128, "cd0100": 256, "ce00010000": 1 << 16, "cf0000000100000000": 1 << 32,
    "d080": -128, "d18000": -32768, "d280000000": -(1 << 31), "d38000000000000000": -(1 << 63),
    "ca3fc00000": 1.5, "cb3ff8000000000000": 1.5,
    "a0": "", "a26869": "hi", "d9026869": "hi", "da00026869": "hi", "db000000026869": "hi",
    "c40201ff": b"\x01\xff", "c5000101": b"\x01", "c60000000101": b"\x01",
    "90": [], "920102": [1, 2], "dc00020102": [1, 2], "dd000000020102": [1, 2],
    "80": {}, "81a16101": {"a": 1}, "de0001a16101": {"a": 1}, "df00000001a16101": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("code", VALUES)
def test_every_form_of_messagepack(code: str) -> None:
    data = bytes.fromhex(code)
    found = unpack(data)
    assert found == VALUES[code]
    assert type(found) is type(VALUES[code])
    for end in range(len(data)):
        with pytest.raises(MessagePackError):
            unpack(data[:end])
    with pytest.raises(MessagePackError, match="ends at byte"):
        unpack(data + b"\0")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("c1", "not MessagePack"), ("c70101ff", "not MessagePack"), ("d4ffff", "not MessagePack"),
        ("a1ff", "not MessagePack"), ("8182a161", "not MessagePack|beyond|of 2"),
        ("819001", "not MessagePack"), ("82a16101a16102", "a key twice"),
        ("ddffffffff00", "a list of 4294967295"), ("dfffffffff00", "a map of 4294967295"),
        ("dbffffffff00", "a text of 4294967295"), ("91" * 40 + "00", "nested deeper"),
    ],
)  # fmt: skip
def test_what_is_no_messagepack_is_refused(code: str, words: str) -> None:
    with pytest.raises(MessagePackError, match=words):
        unpack(bytes.fromhex(code))
