"""What `gristmill reproduce` calls a difference, and what it only tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gristmill.cli.reproduce import (
    Artifact,
    build_environment,
    build_words,
    compare,
    source_notes,
)
from toy_packs import item, items


def artifacts(count: int = 3, **changes: Any) -> dict[str, Artifact]:
    """Artifacts by path, the manifest of the first changed."""
    found = {i.entry.path: Artifact(*i) for i in items(count)}
    path, (entry, blob) = next(iter(found.items()))
    entry = replace(entry, manifest=replace(entry.manifest, **changes))
    return {**found, path: Artifact(entry, blob)}


def test_another_key_alone_is_told_and_is_no_difference() -> None:
    found = compare(artifacts(key="1" * 64), artifacts())
    assert found.differences == {}
    assert found.notes[0].startswith("1 artifacts have another key, and the same bytes")
    assert compare(artifacts(), artifacts()) == ({}, [])


def test_every_field_and_place_counts() -> None:
    path = next(iter(artifacts()))
    found = compare(artifacts(), artifacts(subgroup=32, facts={"registers": 7}))
    assert found.differences == {
        path: ["subgroup null, rebuilt 32", 'facts {}, rebuilt {"registers": 7}']
    }
    moved = artifacts()
    moved[path] = Artifact(replace(moved[path].entry, sites=()), moved[path].blob)
    assert compare(artifacts(), moved).differences == {path: ["other places of the fault sites"]}


def test_the_build_is_asked_for_what_the_pack_holds() -> None:
    given = items(8)
    given.append(item("gristmill.replay", "loop", target="cpu-aarch64", path="cpu-aarch64/r.so"))
    packed = {i.entry.path: Artifact(*i) for i in given}
    assert build_words(packed, {"toolchain": "llc", "spirv_codegen": "a b;c"}) == [
        "target=cpu-aarch64,interp-kir",
        "kernel=kernel00,kernel01",
        "checks=off",
        "toolchain=llc",
    ]
    assert "checks=on" in build_words(artifacts(checks=True), {})
    assert "tune=kernel00,kernel01" in build_words(packed, {"tune": True})


def test_no_store_and_no_cache_is_left_to_the_build(tmp_path: Path) -> None:
    given = {"GRISTMILL_CACHE": "s3://a", "GRISTMILL_CACHE_MODE": "read", "A": "1"}
    given |= {"GRISTMILL_STORE": "mine", "PYTHONPATH": "here"}
    plain = {"A": "1", "GRISTMILL_STORE": str(tmp_path / "store"), "PYTHONPATH": "here"}
    assert build_environment(tmp_path, tmp_path, given) == plain
    (tmp_path / "src/gristmill").mkdir(parents=True)
    own = {**plain, "PYTHONPATH": f"{tmp_path / 'src'}:here"}
    assert build_environment(tmp_path, tmp_path, given) == own


def test_a_record_of_another_commit_is_told(tmp_path: Path) -> None:
    source = {"name": "source", "digest": {"gitCommit": "1" * 40}, "annotations": {"dirty": True}}
    record = {"predicate": {"buildDefinition": {"resolvedDependencies": [source]}}}
    assert source_notes(record, tmp_path) == [
        f"the record names commit {'1' * 40}, this checkout is at an unknown one",
        "the record says that the source differed from its commit",
    ]
    assert "no provenance record" in source_notes(None, tmp_path)[0]
