"""Keys in words: what makes one up, and which inputs of two differ."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.cli.main import main
from gristmill.store.explain import Explainer
from gristmill.store.key import (
    Action,
    assemble_action,
    canonical,
    compile_action,
    compiler_action,
    trace_action,
)
from gristmill.store.local import LocalStore
from toy_packs import item

IR = b"kernel saxpy f32\nparam x: f32 buffer read\n"
SOURCES = {"ir/core.py": b"1", "backends/ptx/emit.py": b"1"}
BASE: dict[str, Any] = {
    "ir": IR,
    "target": "ptx-sm_80",
    "options": {"checks": False},
    "compiler": compiler_action("ptx", SOURCES).key,
    "tools": ["llvmlite 0.50.0"],
}


def made(**changes: Any) -> Action:
    return compile_action(**{**BASE, **changes})


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    """With the sources of a compiler, and the kernel IR that BASE compiles."""
    monkeypatch.setenv("GRISTMILL_STORE", str(tmp_path / "store"))
    store = LocalStore(tmp_path / "store")
    compiler = compiler_action("ptx", SOURCES)
    store.put(compiler.key, {}, compiler.text)
    store.put(made().key, {"artifact": b"1", "seen": IR}, made().text)
    return store


@pytest.fixture
def words(store: LocalStore) -> Explainer:
    return Explainer(store.action, store.content)


def test_the_inputs_of_a_key_are_told(words: Explainer) -> None:
    rows = words.inputs(made())
    assert rows[0] == ("action", "compile")
    told = dict(rows)
    assert told["compiler"].startswith("ptx, 2 source files, key ")
    assert told["kernel IR"].startswith("kernel saxpy f32 (sha256 ")
    assert (told["options: checks"], told["target"]) == ("false", "ptx-sm_80")
    assert told["tools"] == "llvmlite 0.50.0"


def test_the_inputs_of_a_trace_are_told(words: Explainer) -> None:
    row = {"name": "f32", "constexprs": {"T": "f32", "VEC": 4}}
    told = dict(words.inputs(trace_action({"kernels/k.py": b""}, "k", row, "00" * 32, ())))
    assert told["specialization: constexprs.VEC"] == "4"
    assert told["source kernels/k.py"].startswith("sha256 e3b0c442")
    assert told["tools"] == "none that count"
    assert "not in the store" in told["compiler"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"target": "ptx-sm_90"}, ["target: ptx-sm_80 in A, ptx-sm_90 in B"]),
        ({"options": {"checks": True}}, ["option checks: false in A, true in B"]),
        (
            {"options": {"codegen": "llc"}},
            ["option checks: only in A", "option codegen: only in B"],
        ),
        (
            {"tools": ["llvmlite 0.50.1", "ptxas 13"]},
            ["tool llvmlite: 0.50.0 in A, 0.50.1 in B", "tool ptxas: only in B"],
        ),
    ],
)
def test_what_differs_is_told(words: Explainer, changes: dict[str, Any], told: list[str]) -> None:
    assert words.differences(made(), made(**changes)) == told


def test_an_edited_file_of_the_compiler_is_named(words: Explainer, store: LocalStore) -> None:
    edited = {"ir/core.py": b"2", "backends/ptx/new.py": b""}
    other = compiler_action("ptx", edited)
    unknown = words.differences(made(), made(compiler=other.key))
    assert unknown == [
        f"compiler: {BASE['compiler']} in A, {other.key} in B (the sources of one are not in the "
        "store)"
    ]
    store.put(other.key, {}, other.text)
    assert words.differences(made(), made(compiler=other.key)) == [
        "compiler (ptx), source backends/ptx/emit.py: only in A",
        "compiler (ptx), source backends/ptx/new.py: only in B",
        "compiler (ptx), source ir/core.py: other contents",
    ]
    spirv = compiler_action("spirv", SOURCES)
    store.put(spirv.key, {}, spirv.text)
    assert words.differences(made(), made(compiler=spirv.key)) == ["compiler: ptx in A, spirv in B"]


def test_the_first_line_of_kernel_ir_that_differs_is_shown(
    words: Explainer, store: LocalStore
) -> None:
    longer = IR + b"workgroup 64 1 1\n"
    (told,) = words.differences(made(), made(ir=longer))
    assert "the text of one is not in the store" in told
    store.put("00" * 32, {"ir": longer})
    assert words.differences(made(), made(ir=longer)) == [
        "kernel IR: first at line 3: '' in A, 'workgroup 64 1 1' in B"
    ]


def test_steps_of_two_kinds_have_inputs_that_the_other_has_not(words: Explainer) -> None:
    other = assemble_action(b"", "ptx-sm_80", BASE["compiler"], "ptxas 13")
    told = words.differences(made(), other)
    assert told[0] == "action: compile in A, assemble in B"
    assert {"PTX: an input of B only", "kernel IR: an input of A only"} <= set(told)


def test_the_command_explains_and_compares(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    other = made(target="ptx-sm_90")
    store.put(other.key, {"artifact": b"2"}, other.text)
    assert main(["explain", made().key]) == 0
    assert f"key {made().key} is the sha256 of:" in capsys.readouterr().out
    assert main(["explain", made().key, other.key]) == 1
    assert "target: ptx-sm_80 in A, ptx-sm_90 in B" in capsys.readouterr().out
    assert main(["explain", made().key, made().key]) == 0
    assert "no input differs" in capsys.readouterr().out
    assert main(["explain", made().key, other.key, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["keys"] == [made().key, other.key]


def test_what_cannot_be_explained_is_told_in_a_line(
    store: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ptx").write_bytes(b"")
    for place, why in (
        ("0" * 64, "not in the store"),
        (str(tmp_path / "a.ptx"), "no artifact"),
        (str(tmp_path / "b.json"), "no artifact"),
        (made().key[:-1], "no artifact"),
    ):
        assert main(["explain", place]) == 2
        told = capsys.readouterr().err
        assert why in told
        assert told.count("\n") == 1
    assert main(["explain", "0" * 64, "--cache", "gopher://x"]) == 2
    assert "gopher" in capsys.readouterr().err


def crafted(store: LocalStore, fields: dict[str, bytes]) -> str:
    """The key of an action that somebody made up, and whose text the store has."""
    text = canonical(fields)
    key = hashlib.sha256(text).hexdigest()
    store.put(key, {}, text)
    return key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sources", b"[]"),
        ("sources", b"not JSON"),
        ("sources", b'{"a":' * 100_000),
        ("sources", b"1" * 5000),
        ("options", b"\xff"),
        ("tools", b'["a", 7]'),
        ("tools", b"7"),
        ("target", b"\xff"),
        ("target", b"\x1b[2J"),
        ("compiler", b"../../../etc/passwd"),
        ("ir", b"/etc/passwd"),
    ],
)
def test_an_action_that_somebody_made_up_is_told_in_a_line(
    store: LocalStore, capsys: pytest.CaptureFixture[str], name: str, value: bytes
) -> None:
    key = crafted(store, {**made().fields, name: value})
    assert main(["explain", key]) == 2
    assert main(["explain", made().key, key]) == 2
    told = capsys.readouterr().err
    assert told.count("another version of gristmill made it\n") == told.count("\n") == 2
    assert told.replace("\n", "").isprintable()


def test_a_compiler_that_is_none_is_told_as_unknown(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    for fields in ({}, {"stage": b"ptx"}, {"stage": b"ptx", "sources": b"7"}):
        compiler = crafted(store, fields)
        one = crafted(store, {**made().fields, "compiler": compiler.encode()})
        assert main(["explain", one]) == 0
        assert main(["explain", one, made().key]) == 1
        assert capsys.readouterr().out.count("not in the store") == 2


def test_names_cannot_steer_the_terminal(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON within a text may hold any character, as an escape."""
    key = crafted(store, {**made().fields, "options": b'{"\\u001b[2J":"\\u202e\\n"}'})
    assert main(["explain", key]) == 0
    assert main(["explain", made().key, key]) == 1
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_texts_that_differ_in_their_end_alone_are_told_apart(store: LocalStore) -> None:
    explainer = Explainer(store.action, store.content)
    for n, (one, other) in enumerate([(b"a", b"a\n"), (b"a\n", b"a\n\n"), (b"\xff", b"\xfe")]):
        keys = []
        for text in (one, other):
            store.put(hashlib.sha256(text + b"%d" % n).hexdigest(), {"ir": text})
            keys.append(hashlib.sha256(text).hexdigest().encode())
        actions = [Action({**made().fields, "ir": key}) for key in keys]
        (told,) = explainer.differences(*actions)
        assert told.startswith("kernel IR: ")


@pytest.mark.parametrize("place", ["", ".", "..", "/", "a" * 5000, "a/b\n.so"])
def test_places_that_are_no_files_are_told_in_a_line(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", place]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_manifest_whose_key_is_a_path_deletes_nothing(
    store: LocalStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"somebody's work")
    manifest = json.loads(item("x").entry.manifest.to_json())
    (tmp_path / "a.json").write_text(json.dumps({**manifest, "key": str(victim)}))
    (tmp_path / "a.so").write_bytes(b"")
    assert main(["explain", str(tmp_path / "a.so")]) == 2
    assert "not in the store" in capsys.readouterr().err
    assert victim.read_bytes() == b"somebody's work"
