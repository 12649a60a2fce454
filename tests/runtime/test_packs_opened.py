"""Packs in the place of a bundle's folder: the same kernels, and no damaged byte is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir import replay_abi
from gristmill.runtime.devices.null import capabilities
from gristmill.store.bundle import Entry, Place
from gristmill.store.manifest import Manifest
from gristmill.store.pack.reading import Pack
from gristmill.store.pack.writing import Item, pack_bytes, write_pack
from gristmill.store.trust import provenance
from gristmill.store.trust.keys import new_key, write_key
from gristmill.store.trust.signing import sign_pack
from toy_packs import item


def packable(folder: Path) -> dict[str, list[Item]]:
    """The entries of a bundle's folder, by target."""
    found: dict[str, list[Item]] = {}
    for row in json.loads((folder / "bundle.json").read_text())["entries"]:
        sites = tuple(Place(**site) if site else None for site in row["sites"])
        artifact = Manifest.from_dict(row["manifest"])
        entry = Entry(artifact, row["path"], sites)
        found.setdefault(artifact.target, []).append(
            Item(entry, (folder / entry.path).read_bytes())
        )
    return found


@pytest.fixture(scope="module")
def packs(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of each target of the samples, and nothing else."""
    folder = tmp_path_factory.mktemp("packs")
    for target, items in packable(bundle_folder).items():
        write_pack(folder / f"gristmill-{target}.pack", items)
    return folder


def test_packs_hold_what_the_folder_holds(bundle: runtime.Bundle, packs: Path) -> None:
    opened = runtime.open_bundle(packs)
    assert len(opened) == len(bundle)
    assert {k: set(v) for k, v in opened.kernels().items()} == {
        k: set(v) for k, v in bundle.kernels().items()
    }
    for artifact in bundle:
        manifest = artifact.manifest
        same = [
            a
            for a in opened.artifacts(manifest.kernel, manifest.specialization)
            if a.manifest == manifest
        ]
        assert [(a.locs, a.read()) for a in same] == [(artifact.locs, artifact.read())]
    assert opened.digest == runtime.open_bundle(packs).digest != bundle.digest


def test_every_device_computes_from_packs_alone(computing: runtime.Device, packs: Path) -> None:
    opened = runtime.open_bundle(packs)
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    saxpy = computing.load(opened, "saxpy", "f32")
    saxpy(x, y, 2.0)
    assert np.array_equal(y, 2 * x + 1)


def test_a_fault_names_its_line_from_a_pack(packs: Path) -> None:
    with runtime.open_device("interp") as device:
        root = device.load(runtime.open_bundle(packs), "checked_root")
        with pytest.raises(runtime.KernelFault, match=r"sample_kernels.py:\d+:\d+"):
            root(np.full(4, -1, np.float32), np.zeros(4, np.float32))


def test_recordings_replay_by_the_loop_of_a_pack(packs: Path) -> None:
    (file,) = packs.glob("*cpu*.pack")
    opened = runtime.open_bundle(file)
    assert opened.artifacts(replay_abi.KERNEL, replay_abi.SPECIALIZATION)
    with runtime.open_device("cpu") as device:
        saxpy = device.load(opened, "saxpy", "f32")
        assert device._loop is not None
        x, y = device.upload(np.ones(8, np.float32)), device.upload(np.ones(8, np.float32))
        with device.record() as recording:
            recording.launch(saxpy, x, y, 1.0)
        recording.replay()
        recording.replay()
        assert np.array_equal(y.numpy(), np.full(8, 3, np.float32))


def test_one_pack_refuses_devices_of_other_targets(packs: Path) -> None:
    opened = runtime.open_bundle(packs / "gristmill-interp-kir.pack")
    refusal = opened.select("shift", "i32", capabilities(targets=("ptx-sm_90",)))
    assert isinstance(refusal, runtime.Refusal)
    assert refusal.built == ("interp-kir",)


def test_every_byte_of_a_pack_is_checked_before_the_driver(
    bundle_folder: Path, tmp_path: Path
) -> None:
    items = {i.entry.manifest.kernel: i for i in packable(bundle_folder)["interp-kir"]}
    few = [items["shift"], items["group_ids"]]
    good = pack_bytes(few)
    file = tmp_path / "a.pack"
    with runtime.open_device("null") as device:
        file.write_bytes(good)
        assert len(runtime.open_bundle(file)) == 2
        device.inject("load", AssertionError("the driver was called"))
        for at in range(len(good)):
            bad = bytearray(good)
            bad[at] ^= 1 << at % 8
            file.write_bytes(bad)
            # Of the two, the one whose bytes were changed; either where it is the table.
            with pytest.raises(runtime.BundleError):
                load_damaged(device, file, few)
    assert len(good) % 64 == 0


def load_damaged(device: runtime.Device, file: Path, items: list[Item]) -> None:
    """Load those kernels that do not read as they were written."""
    opened = runtime.open_bundle(file)
    for entry, blob in items:
        manifest = entry.manifest
        (artifact,) = opened.artifacts(manifest.kernel, manifest.specialization)
        try:
            assert artifact.read() == blob
        except runtime.BundleError:
            device.load(opened, manifest.kernel, manifest.specialization)


def test_typed_errors_of_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.pack"
    with pytest.raises(runtime.ArtifactMissing, match="no pack: No such file"):
        runtime.open_bundle(file)
    with pytest.raises(runtime.ArtifactMissing, match="no bundle"):
        runtime.open_bundle(tmp_path)
    file.write_bytes(b"word")
    with pytest.raises(runtime.ArtifactCorrupt, match="not a pack"):
        runtime.open_bundle(file)
    with monkeypatch.context() as patch:
        patch.setattr("gristmill.store.pack.format.ABI", 9)
        write_pack(file, [item()])
    with pytest.raises(runtime.VersionMismatch, match="expected ABI 1, got ABI 9"):
        runtime.open_bundle(tmp_path)
    write_pack(file, [item(params=(), constexprs={"x": 1})])
    assert len(runtime.open_bundle(tmp_path)) == 1
    shutil.copy(file, tmp_path / "b.pack")
    with pytest.raises(runtime.BundleError, match=r"two packs hold interp-kir/shift/i32.kir"):
        runtime.open_bundle(tmp_path)


@pytest.fixture
def signed(packs: Path, tmp_path: Path, require: Any) -> Path:
    """A folder of signed packs, beside the key's folder `trusted`."""
    require("cryptography")
    folder = Path(shutil.copytree(packs, tmp_path / "packs"))
    key = new_key("release", 30)
    write_key(tmp_path / "trusted/release.pub", key)
    origin = provenance.Origin(provenance.BUILD, {}, [], provenance.LOCAL, {})
    for path in folder.glob("*.pack"):
        sign_pack(path, provenance.statement(path, origin), key)
    return folder


def test_signatures_are_required_where_that_is_said(signed: Path, bundle_folder: Path) -> None:
    trusted = signed.parent / "trusted"
    opened = runtime.open_bundle(signed, verify="require", keys=trusted)
    assert set(opened.signers) == {"release"}
    assert runtime.open_bundle(signed).signers == ()
    one = next(signed.glob("*.pack"))
    assert runtime.open_bundle(one, verify="require", keys=[trusted]).signers == ("release",)
    Path(f"{one}.sig").unlink()
    with pytest.raises(runtime.Untrusted, match="no signature"):
        runtime.open_bundle(signed, verify="require", keys=trusted)
    with pytest.raises(runtime.Untrusted, match="artifacts in a folder have no signature"):
        runtime.open_bundle(bundle_folder, verify="require", keys=trusted)
    with pytest.raises(runtime.Untrusted, match="no public keys"):
        runtime.open_bundle(signed, verify="require")
    with pytest.raises(runtime.ArgumentError, match="expected off or require, got 'yes'"):
        runtime.open_bundle(signed, verify="yes")


def test_the_environment_can_require_them_of_any_program(
    signed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRISTMILL_VERIFY_PACKS", "require")
    with pytest.raises(runtime.Untrusted, match="no public keys"):
        runtime.open_bundle(signed, verify="off")
    monkeypatch.setenv("GRISTMILL_TRUSTED_KEYS", str(signed.parent / "trusted"))
    assert runtime.open_bundle(signed, verify="off").signers
    write_key(signed.parent / "other/other.pub", new_key("other", 1))
    monkeypatch.setenv("GRISTMILL_TRUSTED_KEYS", str(signed.parent / "other"))
    with pytest.raises(runtime.Untrusted, match="none of which is trusted"):
        runtime.open_bundle(signed)
    monkeypatch.setenv("GRISTMILL_VERIFY_PACKS", "true")
    with pytest.raises(runtime.ArgumentError, match="GRISTMILL_VERIFY_PACKS"):
        runtime.open_bundle(signed)


def test_a_pack_holds_no_file_open_when_it_is_gone(packs: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    opened = runtime.open_bundle(packs)
    assert count() > before
    del opened
    assert count() == before
    with Pack.open(next(packs.glob("*.pack"))):
        pass
    assert count() == before
