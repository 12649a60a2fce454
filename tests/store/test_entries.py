"""Entries of actions: what is listed and carried is that, and nothing else is taken for one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gristmill.store import entries
from gristmill.store.entries import Content

KEY = "a" * 64
OUTPUTS = {"artifact": b"\x7fELF...", "empty": b"", "manifest": b"{}"}


def test_what_is_carried_comes_back() -> None:
    listed, carried = entries.decode(entries.encode(KEY, OUTPUTS, carry=True), KEY) or ({}, None)
    assert listed == entries.contents_of(OUTPUTS)
    assert carried is not None
    assert entries.carried_outputs(listed, carried) == OUTPUTS
    assert entries.decode(entries.encode(KEY, OUTPUTS), KEY) == (listed, None)
    assert entries.decode(entries.encode(KEY, OUTPUTS), "1" * 64) is None


@pytest.mark.parametrize("size", [-1, entries.LARGEST + 1, 1 << 70, True, 8.0, "8", None])
def test_a_size_that_is_none_makes_no_entry(size: Any) -> None:
    body = json.loads(entries.encode_body(KEY, entries.contents_of(OUTPUTS)))
    body["outputs"]["artifact"]["size"] = size
    assert entries.decode_body(json.dumps(body).encode(), KEY) is None


def test_the_largest_output_is_one() -> None:
    listed = {"artifact": Content(KEY, entries.LARGEST), "empty": Content(KEY, 0)}
    assert entries.decode_body(entries.encode_body(KEY, listed), KEY) == listed


@pytest.mark.parametrize("name", ["../x", KEY.upper(), KEY[:-1], f"{KEY}0", f"{KEY}\n", "", 7])
def test_a_digest_that_is_none_makes_no_entry(name: Any) -> None:
    body = json.loads(entries.encode_body(KEY, entries.contents_of(OUTPUTS)))
    body["outputs"]["artifact"]["sha256"] = name
    assert entries.decode_body(json.dumps(body).encode(), KEY) is None


def test_carried_bytes_are_all_of_the_outputs_and_nothing_more() -> None:
    listed = entries.contents_of(OUTPUTS)
    carried = b"".join(OUTPUTS[name] for name in sorted(OUTPUTS))
    assert entries.carried_outputs(listed, carried) == OUTPUTS
    for odd in (carried + b"x", carried[:-1], b"x" + carried[1:], b"", carried[::-1]):
        assert entries.carried_outputs(listed, odd) is None


def test_a_content_is_its_bytes_and_their_number() -> None:
    content = Content(entries.digest(b"abc"), 3)
    assert content.fits(b"abc")
    assert not content.fits(b"abd")
    assert not Content(entries.digest(b"abc"), 4).fits(b"abc")
