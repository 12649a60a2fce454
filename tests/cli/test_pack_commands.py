"""`gristmill pack` and `gristmill key`: what they print, write and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gristmill import runtime
from gristmill.backends.compile import Options, compile_kernel
from gristmill.cli.main import main
from gristmill.cli.table import table
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy
from gristmill.runtime.devices.cpu.level import targets as cpu_targets
from gristmill.store.bundle import Entry
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, pack_bytes, write_pack
from gristmill.store.trust import provenance
from gristmill.store.trust.keys import read_key
from gristmill.store.trust.signing import sign_pack
from toy_packs import altered, item, items, text


@pytest.fixture
def pack(tmp_path: Path) -> str:
    """A pack with its record."""
    path = tmp_path / "a.pack"
    write_pack(path, items(12))
    origin = provenance.Origin(provenance.BUILD, {"checks": False}, [], provenance.LOCAL, {})
    provenance.statement_file(path).write_bytes(provenance.statement(path, origin))
    return str(path)


@pytest.fixture
def key(tmp_path: Path, require: Callable[..., None], capsys: Any) -> Path:
    """The stem of a new key's files."""
    require("cryptography")
    assert main(["key", "new", "release", "--days", "7", "-o", str(tmp_path / "keys")]) == 0
    capsys.readouterr()
    return tmp_path / "keys/release"


def told(capsys: Any, *words: str, status: int = 0) -> Any:
    """What a command says as JSON."""
    assert main([*words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys: Any, *words: str) -> str:
    """The line of a command that cannot be done."""
    assert main(words) == 2
    said: str = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_a_pack_is_listed(capsys: Any, pack: str) -> None:
    (found,) = told(capsys, "pack", "list", pack)
    assert len(found["entries"]) == 12
    assert found["entries"][5]["path"] == "interp-kir/kernel01/s1.kir"
    assert (found["signed"], found["bytes"]) == (False, Path(pack).stat().st_size)
    assert main(["pack", "list", pack]) == 0
    out = capsys.readouterr().out
    assert "kernel02  s3" in out
    assert f"{pack}: 12 entries" in out
    assert f"digest {found['digest']}, not signed" in out


def test_packs_are_verified_each_for_itself(capsys: Any, pack: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pack"
    data = bytearray(Path(pack).read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    good, wrong = told(capsys, "pack", "verify", pack, str(bad), status=1)
    assert good["entries"] == 12
    assert "blob with wrong content" in wrong["error"]
    assert main(["pack", "verify", pack]) == 0
    assert "12 entries, every byte is right; signatures not asked for" in capsys.readouterr().out
    assert "no pack" in refused(capsys, "pack", "verify", str(tmp_path / "nowhere.pack"))


def test_packs_are_signed_and_signatures_verified(capsys: Any, pack: str, key: Path) -> None:
    public, private = str(key.with_suffix(".pub")), str(key.with_suffix(".key"))
    (unsigned,) = told(capsys, "pack", "verify", pack, "--keys", public, status=1)
    assert "no signature" in unsigned["error"]
    assert main(["pack", "sign", pack, "--key", private]) == 0
    assert "signed by release" in capsys.readouterr().out
    (found,) = told(capsys, "pack", "verify", pack, "--keys", str(key.parent))
    assert found["signer"] == "release"
    assert "checks no" in found["record"]
    assert "is a public one" in refused(capsys, "pack", "sign", pack, "--key", public)
    provenance.statement_file(pack).unlink()
    assert "no provenance record" in refused(capsys, "pack", "sign", pack, "--key", private)


def test_the_environment_asks_for_signatures_too(
    capsys: Any, pack: str, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_TRUSTED_KEYS", str(key.parent))
    assert told(capsys, "pack", "verify", pack, status=1)[0]["error"]
    monkeypatch.delenv("GRISTMILL_TRUSTED_KEYS")
    monkeypatch.setenv("GRISTMILL_VERIFY_PACKS", "require")
    assert "no public keys" in refused(capsys, "pack", "verify", pack)


def test_a_record_of_another_pack_is_not_signed(capsys: Any, pack: str, key: Path) -> None:
    write_pack(pack, items(8))
    words = ("pack", "sign", pack, "--key", str(key.with_suffix(".key")))
    assert "record of another pack" in refused(capsys, *words)


def test_the_digest_of_the_whole_file_is_compared_too(capsys: Any, pack: str, key: Path) -> None:
    file = provenance.statement_file(pack)
    record = json.loads(file.read_bytes())
    record["subject"][0]["digest"]["sha256"] = "0" * 64
    sign_pack(pack, json.dumps(record).encode(), read_key(key.with_suffix(".key")))
    words = ("pack", "verify", pack, "--keys", str(key.parent))
    (found,) = told(capsys, *words, status=1)
    assert f"the signed file has sha256 {'0' * 64}, this one" in found["error"]


def test_what_is_extracted_is_a_bundle(capsys: Any, pack: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["pack", "extract", pack, "-o", str(out)]) == 0
    bundle = runtime.open_bundle(out)
    assert len(bundle) == 12
    assert [a.read() for a in bundle] == [i.blob for i in items(12)]
    assert main(["inspect", str(out / "interp-kir/kernel01/s1.kir")]) == 0
    assert "exists and is not an empty folder" in refused(
        capsys, "pack", "extract", pack, "-o", str(out)
    )
    some = told(capsys, "pack", "extract", pack, "-o", str(tmp_path / "b"), "--kernel", "kernel01")
    assert len(some["entries"]) == 4
    words = ("pack", "extract", pack, "-o", str(tmp_path / "c"), "--kernel")
    assert told(capsys, *words, "kernel01/s2")["entries"] == ["interp-kir/kernel01/s2.kir"]
    assert "no kernel 'kernel9'" in refused(
        capsys, *words[:-2], str(tmp_path / "d"), "--kernel", "kernel9"
    )


def test_nothing_is_written_outside_of_the_folder(capsys: Any, pack: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "not an empty folder" in refused(
        capsys, "pack", "extract", pack, "-o", str(tmp_path / "link")
    )
    evil = tmp_path / "evil.pack"
    names = text(b"../up.kir\nshift\ni32")
    evil.write_bytes(altered(pack_bytes([item()]), lambda table: {"names": names}))
    assert "'/../' in a path" in refused(
        capsys, "pack", "extract", str(evil), "-o", str(tmp_path / "x")
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "paths",
    [
        ("a.kir", "a.so"),
        ("a.json",),
        ("bundle.json",),
        ("a.kir", "a.json/b.so"),
        ("bundle.so", "bundle.json/x"),
    ],
)
def test_entries_that_cannot_lie_beside_their_manifests(
    capsys: Any, tmp_path: Path, paths: tuple[str, ...]
) -> None:
    file = tmp_path / "a.pack"
    write_pack(file, [item(f"k{n}", path=path) for n, path in enumerate(paths)])
    words = ("pack", "extract", str(file), "-o", str(tmp_path / "out"))
    assert "cannot lie in one folder" in refused(capsys, *words)


def test_packs_are_merged_with_a_record(capsys: Any, pack: str, tmp_path: Path, key: Path) -> None:
    other, out = tmp_path / "b.pack", str(tmp_path / "both.pack")
    write_pack(other, [item("zeta")])
    assert told(capsys, "pack", "merge", pack, str(other), "-o", out)["entries"] == 13
    with Pack.open(out) as merged:
        assert merged.verify() == 13
    record = provenance.read_record(out)
    assert record is not None
    rows = record["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert [row["name"] for row in rows] == ["a.pack", "b.pack"]
    assert main(["pack", "sign", out, "--key", str(key.with_suffix(".key"))]) == 0
    write_pack(other, [item("kernel00", "s0", blob=b"other")])
    assert "another artifact" in refused(capsys, "pack", "merge", pack, str(other), "-o", out)


def test_keys_are_made_and_shown(capsys: Any, key: Path) -> None:
    files = [str(key.with_suffix(end)) for end in (".key", ".pub")]
    private, public = told(capsys, "key", "show", *files)
    assert (private["kind"], public["kind"]) == ("private", "public")
    assert private["id"] == public["id"]
    folder = str(key.parent)
    assert "exists" in refused(capsys, "key", "new", "release", "-o", folder)
    for name in ("a/b", ".hidden", "", "a\nb"):
        assert "is no name" in refused(capsys, "key", "new", name, "-o", folder)
    words = ("key", "new", "long", "--days", "99999999999", "-o", folder)
    assert "at most 36500 days" in refused(capsys, *words)


def test_inspect_looks_into_packs(capsys: Any, pack: str) -> None:
    assert main(["inspect", pack]) == 0
    assert "interp-kir: 12 artifacts" in capsys.readouterr().out
    assert main(["inspect", f"{pack}/interp-kir/kernel01/s1.kir"]) == 0
    out = capsys.readouterr().out
    assert "kernel       kernel01 s1" in out
    assert "%r.3 = add" in out
    assert told(capsys, "inspect", f"{pack}/interp-kir/kernel01/s1.kir")["kernel"] == "kernel01"
    assert "has no nothing.kir" in refused(capsys, "inspect", f"{pack}/nothing.kir")


def test_checks_benchmarks_and_fat_binaries_need_packs_alone(capsys: Any, tmp_path: Path) -> None:
    made = []
    for target in ("interp-kir", "ptx-sm_80", cpu_targets()[0]):
        blob, manifest = compile_kernel(print_kernel(saxpy.trace("f32")), target, Options())
        made.append(Item(Entry(manifest, f"{target}/saxpy/f32.bin"), blob))
    for n, one in enumerate(made):
        write_pack(tmp_path / f"{n}.pack", [one])
    folder = str(tmp_path)
    for device in ("interp", "cpu"):
        report = told(capsys, "check", device, "--bundle", folder)
        assert (report["passed"], len(report["results"])) == (True, 1)
    assert told(capsys, "check", "interp", "--bundle", f"{folder}/0.pack")["passed"]
    assert main(["bench", "cpu", "--bundle", folder, "--kernel", "saxpy", "--seconds", "0.01"]) == 0
    capsys.readouterr()
    out = str(tmp_path / "a.fatbin")
    words = ("fatbin", "saxpy", "-o", out, "--bundle", f"{folder}/0.pack")
    assert "has no cubin and no PTX in the bundle" in refused(capsys, *words)


def test_an_artifact_does_not_take_the_place_of_the_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """bundle.so has its manifest in bundle.json."""
    path = tmp_path / "a.pack"
    write_pack(path, [item("x", path="bundle.so"), item("y", path="sub/y.so")])
    told = refused(capsys, "pack", "extract", str(path), "-o", str(tmp_path / "out"))
    assert "bundle.json is a manifest" in told
    assert not (tmp_path / "out").exists()


def test_names_in_a_pack_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = "interp-\x1b[2Jkir\nnext"
    write_pack(tmp_path / "a.pack", [item("x", target=odd, path="x.kir", blob=b"\x1b[2J\xff")])
    assert odd not in refused(capsys, "pack", "list", str(tmp_path / "a.pack"))
    assert odd not in refused(capsys, "inspect", str(tmp_path / "a.pack"))
    write_pack(tmp_path / "b.pack", [item("x", path="x.kir", blob=b"a\tb\n\x1b[2J\xff")])
    assert main(["inspect", str(tmp_path / "b.pack" / "x.kir")]) == 0
    assert "a\tb\n\\x1b[2J\ufffd" in capsys.readouterr().out


def test_cells_of_a_table_cannot_steer_the_terminal() -> None:
    assert table([["a", "b"], ["\x1b[2J", "1\n2\u202e"]]) == ("a        b\n\\x1b[2J  1\\n2\\u202e")
