"""`gristmill reproduce`: a pack that its source does not make is found out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gristmill.store.local import LocalStore
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, merged, write_pack
from project import Project

PACK = "artifacts/packs/gristmill-interp-kir.pack"


@pytest.fixture
def packed(project: Project) -> Project:
    """A project with its pack."""
    assert project.scons("pack").status == 0
    project.path("src").mkdir()
    project.path("src/gristmill").symlink_to(project.compiler)  # as in a checkout
    return project


def reproduce(project: Project, *words: str, **environment: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report and messages."""
    command = [
        sys.executable,
        "-m",
        "gristmill.cli.main",
        "reproduce",
        PACK,
        "--json",
        "--jobs",
        "2",
    ]
    done = subprocess.run(
        [*command, "--source", str(project.root), *words],
        cwd=project.root,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    report: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return done.returncode, report, done.stderr


def changed(project: Project, change: Any) -> None:
    """Make the pack again, validly, with its first artifact changed."""
    file = project.path(PACK)
    with Pack.open(file) as pack:
        first, *others = merged([pack])
    write_pack(file, [change(first), *others])


def test_an_honest_pack_is_the_same(packed: Project) -> None:
    status, report, errors = reproduce(packed)
    assert (status, errors) == (0, "")
    assert (report["entries"], report["same"], report["differences"]) == (3, 3, {})
    assert not packed.path("out").exists()


def test_a_changed_artifact_in_a_valid_pack_is_found(packed: Project) -> None:
    def evil(item: Item) -> Item:
        blob = item.blob.replace(b"const 3.0", b"const 4.0")
        assert blob != item.blob
        manifest = replace(item.entry.manifest, sha256=sha256(blob).hexdigest(), size=len(blob))
        return Item(replace(item.entry, manifest=manifest), blob)

    changed(packed, evil)
    status, report, _ = reproduce(packed)
    assert (status, report["same"]) == (1, 2)
    ((path, reasons),) = report["differences"].items()
    assert path == "interp-kir/scale/big.kir"
    assert reasons[0].startswith("other bytes from byte")


def test_a_changed_manifest_is_found(packed: Project) -> None:
    def evil(item: Item) -> Item:
        manifest = replace(item.entry.manifest, workgroup=(7, 1, 1))
        return Item(replace(item.entry, manifest=manifest), item.blob)

    changed(packed, evil)
    status, report, _ = reproduce(packed)
    assert status == 1
    assert report["differences"] == {
        "interp-kir/scale/big.kir": ["workgroup [7, 1, 1], rebuilt [256, 1, 1]"]
    }


def test_what_a_poisoned_store_delivered_is_found(packed: Project) -> None:
    """The build that is compared with takes nothing from it, nor from a cache."""
    with Pack.open(packed.path(PACK)) as pack:
        number = pack.number("interp-kir/scale/big.kir")
        manifest, blob = pack.manifest(number), pack.read(number)
    evil = blob.replace(b"const 3.0", b"const 4.0")
    told = replace(manifest, sha256=sha256(evil).hexdigest(), size=len(evil))
    outputs = {"artifact": evil, "manifest": told.to_json().encode()}
    LocalStore(packed.store).put(manifest.key, outputs)
    packed.scons("-c")
    assert packed.scons("pack").status == 0
    with Pack.open(packed.path(PACK)) as pack:
        assert pack.read(number) == evil
    environment = {
        "GRISTMILL_STORE": str(packed.store),
        "GRISTMILL_CACHE": f"file://{packed.store}",
    }
    status, report, _ = reproduce(packed, **environment)
    assert (status, list(report["differences"])) == (1, ["interp-kir/scale/big.kir"])


def test_another_source_is_told(packed: Project) -> None:
    packed.edit("kernels/shared.py", "FACTOR = 3", "FACTOR = 5")
    packed.write(
        "configs/kernels/shift.yaml", "kernel: shift\nmodule: toy\nspecializations:\n  other: {}\n"
    )
    status, report, _ = reproduce(packed)
    assert (status, report["same"]) == (1, 0)
    assert report["differences"]["interp-kir/shift/plain.kir"] == [
        "the build makes no such artifact"
    ]
    assert any("makes 1 more, among them interp-kir/shift/other.kir" in n for n in report["notes"])


def test_what_cannot_be_built_is_no_verdict(packed: Project, tmp_path: Path) -> None:
    status, _, errors = reproduce(packed, "--source", str(tmp_path / "nowhere"))
    assert status == 2
    assert "is no checkout" in errors
    packed.path("configs/kernels/shift.yaml").unlink()
    status, _, errors = reproduce(packed)
    assert status == 2
    assert "unknown kernel=shift" in errors
