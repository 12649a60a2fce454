"""`scons pack` makes one pack for each target, with the record of what it was made from."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.bundle import bundle_json
from gristmill.store.pack.reading import Pack
from project import Project

PACK = "artifacts/packs/gristmill-interp-kir.pack"


def record(project: Project, pack: str = PACK) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(project.path(f"{pack}.provenance.json").read_text())
    return found


def parameters(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = record(project)["predicate"]["buildDefinition"]["externalParameters"]
    return found


def materials(project: Project) -> dict[str, Any]:
    rows = record(project)["predicate"]["buildDefinition"]["resolvedDependencies"]
    return {row["name"]: row for row in rows}


def test_a_pack_for_each_target_holds_what_the_bundle_holds(project: Project) -> None:
    done = project.scons("pack", "target=all")
    assert done.status == 0, done.text
    assert not project.path("artifacts/bundle.json").exists()
    names = sorted(p.name for p in project.path("artifacts/packs").iterdir())
    assert [n for n in names if n.endswith(".pack")] == [
        "gristmill-interp-kir.pack",
        "gristmill-interp-second.pack",
    ]
    assert project.scons().status == 0
    with Pack.open(project.path(PACK)) as pack:
        assert pack.verify() == 3
        entries = sorted(pack, key=lambda e: e.path)
        blobs = {entry.path: pack.read(n) for n, entry in enumerate(pack)}
    listed = project.bundle()["entries"]
    ours = json.loads(bundle_json(entries))["entries"]
    assert ours == sorted(listed, key=lambda e: e["path"])
    for path, blob in blobs.items():
        assert project.path(f"artifacts/{path}").read_bytes() == blob


def test_equal_inputs_give_equal_packs_and_records(project: Project) -> None:
    project.scons("pack")
    first = [project.path(PACK).read_bytes(), record(project)]
    again = project.scons("pack")
    assert (again.status, again.built, again.steps("pack")) == (0, 0, 0)
    assert project.scons("-c", "pack").status == 0
    assert not list(project.path("artifacts/packs").glob("*"))
    assert project.scons("pack", "out=elsewhere").status == 0
    other = project.path(PACK.replace("artifacts", "elsewhere"))
    assert other.read_bytes() == first[0]
    assert record(project, PACK.replace("artifacts", "elsewhere")) == first[1]


def test_the_codec_is_chosen(project: Project) -> None:
    assert project.scons("pack", "codec=none").status == 0
    assert parameters(project)["codec"] == "none"
    with Pack.open(project.path(PACK)) as pack:
        assert {pack.sizes(n)[2] for n in range(len(pack))} == {"none"}
    assert project.scons("pack").status == 0
    with Pack.open(project.path(PACK)) as pack:
        assert {pack.sizes(n)[2] for n in range(len(pack))} == {"deflate"}
    odd = project.scons("pack", "codec=deflat")
    assert odd.status == 2
    assert "unknown value codec=deflat; did you mean 'deflate'?" in odd.err


def test_a_record_says_from_what_a_pack_was_made(project: Project) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *who, *words], cwd=project.root, check=True, capture_output=True)

    assert project.scons("pack", "kernel=scale").status == 0
    assert "source" not in materials(project)  # no checkout: nothing is known of it
    assert parameters(project)["kernels"] == ["scale"]
    git("init", "-q")
    project.write(".gitignore", "artifacts\n.sconsign*\n__pycache__\n")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    assert project.scons("pack", GRISTMILL_BUILDER="https://ci.example/1").status == 0
    source = materials(project)["source"]
    assert (len(source["digest"]["gitCommit"]), source["annotations"]) == (40, {"dirty": False})
    assert record(project)["predicate"]["runDetails"]["builder"]["id"] == "https://ci.example/1"
    digests = {n: row["digest"] for n, row in materials(project).items()}
    assert all(len(digests[f"compiler, {s}"]["sha256"]) == 64 for s in ("trace", "interp"))
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 4")
    assert project.scons("pack").status == 0
    assert materials(project)["source"]["annotations"] == {"dirty": True}


def test_cleaning_everything_takes_packs_records_and_signatures(project: Project) -> None:
    project.scons("pack")
    project.path(f"{PACK}.sig").write_text("{}")
    assert project.scons("-c").status == 0
    assert not list(project.path("artifacts").rglob("*.pack*"))


def test_a_kernel_that_cannot_be_configured_fails_the_pack(project: Project) -> None:
    project.write("configs/kernels/shift.yaml", "kernel: shift\nmodule: toy\nwords: 7\n")
    done = project.scons("-k", "pack")
    assert done.status == 2
    assert "shift" in done.err
    assert not project.path(PACK).exists()


def test_a_pack_that_changes_loses_its_signature(project: Project) -> None:
    project.scons("pack")
    signature = project.path(f"{PACK}.sig")
    payload = project.path(f"{PACK}.provenance.json").read_bytes()
    envelope = {"payloadType": "application/vnd.in-toto+json", "signatures": []}
    coded = base64.b64encode(payload).decode()
    signature.write_text(json.dumps({**envelope, "payload": coded}))
    project.path(f"{PACK}.provenance.json").unlink()
    project.scons("pack")
    assert signature.exists()
    project.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 5")
    project.scons("pack")
    assert not signature.exists()


def test_an_artifact_that_was_changed_is_not_packed(project: Project) -> None:
    project.scons()
    file = Path(project.path("artifacts/interp-kir/shift/plain.kir"))
    good = file.read_bytes()
    file.write_bytes(good.replace(b"64 1 1", b"32 1 1"))
    done = project.scons("pack")
    if done.status == 0:  # it was noticed, and made again
        assert file.read_bytes() == good
    else:
        assert "was changed after it was built" in done.err
        assert not project.path(PACK).exists()


@pytest.mark.parametrize("word", ["pakc", "packs"])
def test_a_job_that_is_none_is_told(project: Project, word: str) -> None:
    done = project.scons(word)
    assert done.status == 2
    assert "did you mean 'pack'" in done.err or "pack" in done.err
