"""A bundle is trusted only as far as its digests go; selection says what each variant lacked."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir import replay_abi
from gristmill.ir.abi import GRID_OPS
from gristmill.runtime import selection
from gristmill.runtime.devices.null import capabilities
from gristmill.runtime.selection import lacking
from gristmill.store.bundle import Entry, bundle_json, write_bundle
from gristmill.store.manifest import OPERATIONS
from gristmill.store.schema import ManifestError


@pytest.fixture
def copied(bundle_folder, tmp_path) -> Path:
    """A bundle of its own to damage."""
    return Path(shutil.copytree(bundle_folder, tmp_path / "bundle"))


def small_bundle(folder: Path, bundle: runtime.Bundle, *entries: Entry) -> Path:
    """A bundle of the interpreter's `shift` alone, or of these entries."""
    artifact = bundle.artifacts("shift", "i32")[0]
    (folder / "shift.kir").write_bytes(artifact.read())
    write_bundle(folder, entries or (Entry(artifact.manifest, "shift.kir"),))
    return folder


def test_every_byte_of_an_artifact_is_checked_before_the_driver(bundle, tmp_path):
    folder = small_bundle(tmp_path, bundle)
    file = folder / "shift.kir"
    good = file.read_bytes()
    with runtime.open_device("null") as device:
        device.inject("load", AssertionError("the driver was called"))
        for at in range(len(good)):
            bad = bytearray(good)
            bad[at] ^= 1 << at % 8
            file.write_bytes(bad)
            with pytest.raises(runtime.ArtifactCorrupt, match="wrong content"):
                device.load(runtime.open_bundle(folder), "shift")
        for size in (0, 1, len(good) - 1):
            file.write_bytes(good[:size])
            with pytest.raises(runtime.ArtifactCorrupt, match="wrong size"):
                device.load(runtime.open_bundle(folder), "shift")


def test_every_byte_of_the_index_is_checked(bundle, tmp_path):
    folder = small_bundle(tmp_path, bundle)
    index = folder / "bundle.json"
    good = index.read_bytes()
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        index.write_bytes(bad)
        with pytest.raises(runtime.BundleError):
            runtime.open_bundle(folder)
        index.write_bytes(good[:at])
        with pytest.raises(runtime.BundleError):
            runtime.open_bundle(folder)
    index.write_bytes(good)
    assert len(runtime.open_bundle(index)) == 1


def rewritten(folder: Path, change: Any) -> None:
    """Change the decoded index and sign it again."""
    from gristmill.runtime.bundle import _sha256, canonical

    data = json.loads((folder / "bundle.json").read_text())
    change(data)
    data["digest"] = _sha256(canonical(data["entries"]))
    (folder / "bundle.json").write_text(json.dumps(data))


def test_the_digest_is_taken_over_the_index_as_it_is_written(bundle, tmp_path, monkeypatch):
    folder = small_bundle(tmp_path, bundle)
    index = folder / "bundle.json"
    digest = runtime.open_bundle(folder).digest
    text = index.read_text()
    index.write_text(json.dumps(json.loads(text), indent=1))
    assert runtime.open_bundle(folder).digest == digest
    index.write_text(text)

    def never(entries: Any) -> bytes:
        raise AssertionError("written again")

    monkeypatch.setattr("gristmill.runtime.bundle.canonical", never)
    assert runtime.open_bundle(folder).digest == digest


@pytest.mark.parametrize("digest", [7, None, "\ud800", "", [], "0" * 64])
def test_a_digest_of_any_kind_is_compared(bundle, tmp_path, digest):
    index = small_bundle(tmp_path, bundle) / "bundle.json"
    good = runtime.open_bundle(index).digest
    index.write_text(index.read_text().replace(f'"{good}"', json.dumps(digest)))
    with pytest.raises(runtime.ArtifactCorrupt, match="wrong content"):
        runtime.open_bundle(index)


@pytest.mark.parametrize("more", [',"entries":[]', ',"digest":"{}"', ',"schema":1'])
def test_fields_given_twice_open_nothing_under_a_digest_of_others(bundle, tmp_path, more):
    index = small_bundle(tmp_path, bundle) / "bundle.json"
    good = runtime.open_bundle(index).digest
    text = index.read_text()
    for place in (',"entries"', ',"schema"'):
        head, tail = text.rsplit(place, 1)
        index.write_text(head + more.format("0" * 64) + place + tail)
        try:
            opened = runtime.open_bundle(index)
        except runtime.BundleError:
            continue
        assert (opened.digest, len(opened)) == (good, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema=2),
        lambda d: d["entries"][0]["manifest"].update(schema=2),
        lambda d: d.pop("schema"),
        lambda d: d.update(more=1),
        lambda d: d["entries"][0].pop("path"),
        lambda d: d["entries"][0].update(path="../up.kir"),
        lambda d: d["entries"][0].update(path="/etc/passwd"),
        lambda d: d["entries"][0].update(sites=[{"file": 3}]),
        lambda d: d["entries"][0].update(manifest=None),
        lambda d: d["entries"][0]["manifest"].pop("kernel"),
    ],
)
def test_other_schemas_and_odd_fields_are_typed_errors(bundle, tmp_path, change):
    folder = small_bundle(tmp_path, bundle)
    rewritten(folder, change)
    with pytest.raises(runtime.ManifestInvalid) as caught:
        runtime.open_bundle(folder)
    assert isinstance(caught.value, ManifestError)


def deep(levels: int) -> Any:
    """A grid expression nested so deep."""
    return ["add", 1, deep(levels - 1)] if levels else 1


def test_manifests_know_the_operations_of_grids():
    assert tuple(GRID_OPS) == OPERATIONS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"size": "7"}, "field size must be int"),
        ({"workgroup": [64, True, 1]}, "workgroup must hold int only"),
        ({"workgroup": [64, 0, 1]}, "three positive integers"),
        ({"workgroup": []}, "three positive integers"),
        ({"requires": [3]}, "requires must hold str only"),
        ({"sites": [None]}, "sites must hold str only"),
        ({"subgroup": "32"}, "subgroup must be int"),
        ({"index": "f32"}, "index must be i32 or i64, got 'f32'"),
        ({"grid": [1, 1]}, "grid must be null or three expressions"),
        ({"params": [{"name": "x"}]}, "a parameter has the fields"),
        ({"dtype": "f31"}, "unknown type; expected one of bool, .*, got f31"),
        ({"access": "rw"}, "access of a parameter is 'rw'"),
        ({"kind": "sampler"}, "kind of a parameter is 'sampler'"),
        ({"may_alias": 1}, "may_alias must be bool"),
        *(
            ({"facts": {"dynamic_shared_bytes": n}}, r"dynamic_shared_bytes; expected .*, got ")
            for n in ("abc", [1], None, -5, 2**40, True, 1.5)
        ),
        *(
            ({"entry": name}, "field entry; expected a symbol, got ")
            for name in ("\ud800", "a\0b", "", "a\nb")
        ),
        *(
            ({"grid": [1, odd, 1]}, r"field grid; expected an integer, .*, got ")
            for odd in (
                ["count", "nowhere"],
                ["scalar", "x"],
                None,
                1.5,
                True,
                [],
                "x",
                {},
                ["add", 1],
                ["pow", 1, 2],
                ["add", 1, None],
                [["count"], 1],
                ["grid", 0],
            )
        ),
        ({"grid": [1, deep(220), 1]}, "field grid; expected an integer"),
        ({"grid": [1, deep(450), 1]}, "field grid"),
        ({"facts": {"loop_turns": ["count", "nowhere"]}}, "field loop_turns; expected an integer"),
        ({"facts": {"loop_turns": "abc"}}, "field loop_turns; expected an integer"),
        *(
            ({name: -1}, f"field {name}; expected an integer of at least 0, got -1")
            for name in ("size", "shared_bytes", "scratch_bytes")
        ),
    ],
)
def test_odd_manifest_is_found_when_it_is_used(bundle, tmp_path, change, words):
    folder = small_bundle(tmp_path, bundle)
    (field,) = change

    def apply(data: dict[str, Any]) -> None:
        manifest = data["entries"][0]["manifest"]
        (manifest if field in manifest else manifest["params"][0]).update(change)

    rewritten(folder, apply)
    with pytest.raises(runtime.ManifestInvalid, match=words):
        runtime.open_bundle(folder).artifacts("shift", "i32")


def test_missing_things_are_named(copied, tmp_path):
    with pytest.raises(runtime.ArtifactMissing, match="no bundle: No such file"):
        runtime.open_bundle(tmp_path / "nowhere")
    bundle = runtime.open_bundle(copied)
    with pytest.raises(runtime.ArtifactMissing, match=r"no kernel 'softmin'; it has .*saxpy"):
        bundle.artifacts("softmin", "f32")
    with pytest.raises(runtime.ArtifactMissing, match="expected one of f32, f16, f64, i8"):
        bundle.artifacts("saxpy", "f128")
    with runtime.open_device("interp") as device:
        with pytest.raises(runtime.ArtifactMissing, match="several specializations"):
            device.load(bundle, "saxpy")
        (copied / "interp-kir/saxpy/f32.bin").unlink()
        with pytest.raises(runtime.ArtifactMissing, match="rebuild the bundle"):
            device.load(bundle, "saxpy", "f32")


def test_the_loop_that_replays_is_no_kernel_to_launch(bundle):
    """A device loads it by itself: callers who list what a bundle holds do not meet it."""
    assert replay_abi.KERNEL not in bundle.kernels()
    assert bundle.artifacts(replay_abi.KERNEL, replay_abi.SPECIALIZATION)
    with pytest.raises(runtime.ArtifactMissing) as caught:
        bundle.specialization("softmin")
    assert replay_abi.KERNEL not in str(caught.value)


def test_a_selection_needs_capabilities(bundle):
    with pytest.raises(runtime.ArgumentError, match="expected a Capabilities, got str 'cpu'"):
        bundle.select("shift", "i32", "cpu")


def test_no_artifact_for_the_device_is_a_refusal_with_both_lists(bundle, tmp_path):
    reopened = runtime.open_bundle(small_bundle(tmp_path, bundle))
    caps = capabilities(targets=("ptx-sm_90", "ptx-sm_80"))
    refusal = reopened.select("shift", "i32", caps)
    assert isinstance(refusal, runtime.Refusal)
    assert (refusal.targets, refusal.built) == (("ptx-sm_90", "ptx-sm_80"), ("interp-kir",))
    assert "loads ptx-sm_90, ptx-sm_80, the bundle has interp-kir" in str(refusal)
    with runtime.open_device("null", caps=caps) as device, pytest.raises(runtime.Refused) as caught:
        device.load(reopened, "shift")
    assert caught.value.refusal == refusal._replace(device=refusal.device)


def variant(bundle: runtime.Bundle, n: int, **changes: Any) -> Entry:
    manifest = bundle.artifacts("shift", "i32")[0].manifest
    return Entry(dataclasses.replace(manifest, key=f"variant {n}", **changes), "shift.kir")


def chosen(bundle: runtime.Bundle, caps: Any) -> str:
    found = bundle.select("shift", "i32", caps)
    assert isinstance(found, runtime.Artifact)
    return found.manifest.key


def test_first_variant_that_fits_is_chosen(bundle, tmp_path):
    entries = [
        variant(bundle, 0, requires=("f16",)),
        variant(bundle, 1, subgroup=32),
        variant(bundle, 2, workgroup=(2048, 1, 1)),
        variant(bundle, 3, shared_bytes=1 << 20),
        variant(bundle, 4, facts={"loop_turns": 65536}),
        variant(bundle, 5, target="cpu-aarch64"),
    ]
    made = runtime.open_bundle(small_bundle(tmp_path, bundle, *entries))
    full = capabilities()
    assert chosen(made, full) == "variant 0"
    no_f16 = capabilities(features=full.features - {"f16"})
    assert chosen(made, no_f16) == "variant 1"
    small = capabilities(features=full.features - {"f16"}, subgroup_sizes=(4, 8))
    assert chosen(made, small) == "variant 4"
    weak = capabilities(
        features=frozenset(),
        subgroup_sizes=(4,),
        targets=("interp-kir",),
        limits=dataclasses.replace(full.limits, loop_iterations=65535),
    )
    refusal = made.select("shift", "i32", weak)
    assert isinstance(refusal, runtime.Refusal)
    assert [lack.missing[0] for lack in refusal.lacks] == [
        "feature f16",
        "subgroups of 32 (the device has 4)",
        "2048 invocations in a workgroup (limit 1024)",
        "1048576 bytes of workgroup memory (limit 65536)",
        "65536 loop turns of an invocation (limit 65535)",
    ]
    assert str(refusal).endswith("; add a variant with SUBGROUP: 4 to the kernel's configuration")
    assert chosen(made, capabilities(targets=("cpu-aarch64", "interp-kir"))) == "variant 5"


@pytest.mark.parametrize("feature", ["f16", "storage16"])
def test_capability_decides_in_both_directions(bundle, tmp_path, feature):
    made = runtime.open_bundle(
        small_bundle(tmp_path, bundle, variant(bundle, 0, requires=(feature,)))
    )
    full = capabilities()
    assert chosen(made, full) == "variant 0"
    refusal = made.select("shift", "i32", capabilities(features=full.features - {feature}))
    assert isinstance(refusal, runtime.Refusal)
    assert "SUBGROUP" not in str(refusal)
    assert refusal.lacks[0].missing == (f"feature {feature}",)


def test_target_suffixes_are_features_and_come_first(bundle, tmp_path):
    plain = variant(bundle, 0)
    native = variant(bundle, 1, target="interp-kir:dot4", requires=("dot4",))
    made = runtime.open_bundle(small_bundle(tmp_path, bundle, plain, native))
    full = capabilities()
    assert chosen(made, full) == "variant 1"
    assert chosen(made, capabilities(features=full.features - {"dot4"})) == "variant 0"


class OfOtherVendor:
    """Rules of a device package that is not there."""

    @staticmethod
    def lacking_driver(manifest, caps):
        return None if caps.driver == "new" else f"a new driver for {manifest.entry}"

    @staticmethod
    def lacking_architecture(target, caps):
        return f"a device for {target}" if "vendor" in caps.facts else None


def test_rules_of_a_vendor_judge_what_its_devices_load(bundle, tmp_path, monkeypatch):
    monkeypatch.setitem(selection.RULES, "hsaco", "other")
    name = selection.__name__.replace("selection", "devices.other.rules")
    monkeypatch.setitem(sys.modules, name, OfOtherVendor)
    mine = variant(bundle, 0, target="hsaco-gfx1")
    later = variant(bundle, 1, target="hsaco-gfx2")
    made = runtime.open_bundle(small_bundle(tmp_path, bundle, mine, later))
    old = capabilities(targets=("hsaco-gfx1",), facts={"vendor": "other"})
    entry = bundle.artifacts("shift", "i32")[0].manifest.entry
    assert made.select("shift", "i32", old).lacks == (
        ("hsaco-gfx1", 0, (f"a new driver for {entry}",)),
        ("hsaco-gfx2", 0, ("a device for hsaco-gfx2",)),
    )
    assert chosen(made, dataclasses.replace(old, driver="new")) == "variant 0"
    assert made.select("shift", "i32", capabilities()).lacks == ()  # another vendor's device


@pytest.mark.parametrize("backend", sorted(selection.RULES))
def test_every_backend_with_rules_has_the_module_of_them(backend):
    rules = selection.rules_for(f"{backend}-arch")
    assert rules.lacking_architecture("interp-kir", capabilities()) is None


def test_fault_bitmap_counts_as_a_buffer(bundle):
    manifest = bundle.artifacts("checked_root", "f32")[0].manifest
    caps = capabilities()
    limits = dataclasses.replace(caps.limits, buffers=2)
    assert lacking(manifest, capabilities(limits=limits)) == ("3 buffers (limit 2)",)
    assert lacking(dataclasses.replace(manifest, sites=()), capabilities(limits=limits)) == ()


def test_bundle_written_by_the_store_is_canonical(bundle_folder):
    text = (bundle_folder / "bundle.json").read_text()
    assert json.loads(text)["digest"] in text
    assert len(bundle_json([])) > 0
    assert np.all([len(a.manifest.sha256) == 64 for a in runtime.open_bundle(bundle_folder)])
