"""Code objects that are damaged, or not what their manifests say, never reach the HSA runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_hsa import FakeRuntime, code_object, labelled, made_for, metadata
from gristmill import runtime
from gristmill.runtime.devices.hsa.codeobject import read
from gristmill.store.bundle import Entry, Place, write_bundle
from gristmill.store.manifest import Manifest

Manifests = dict[str, tuple[Manifest, tuple[Place, ...]]]
Put = Callable[[Manifest, bytes], runtime.Bundle]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def bundle(manifest: Manifest, blob: bytes) -> runtime.Bundle:
        (tmp_path / "code.hsaco").write_bytes(blob)
        write_bundle(tmp_path, [Entry(manifest, "code.hsaco", (None,) * len(manifest.sites))])
        return runtime.open_bundle(tmp_path)

    return bundle


def refused(device: runtime.Device, bundle: runtime.Bundle, match: str) -> None:
    """The load is a corrupt artifact; nothing is left of it, and the device lives."""
    with pytest.raises(runtime.ArtifactCorrupt, match=match):
        device.load(bundle, "saxpy")
    assert not device._codes  # type: ignore[attr-defined]
    device.upload(np.ones(4, np.float32)).numpy()


def test_a_code_object_for_another_processor_is_corrupt(
    device: runtime.Device, manifests: Manifests, put: Put
) -> None:
    manifest, _ = manifests["saxpy"]
    blob, _ = made_for(manifest, "gfx1201")
    refused(
        device,
        put(labelled(manifest, "gfx1100", blob), blob),
        r"code for another processor; expected gfx1100, got gfx1201",
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"symbol": "other.kd"}, "no symbol other.kd"),
        ({"args": []}, r"other parameters .*expected \(\(0, 8\), "),
        (
            {"args": [{".offset": 0, ".size": 8, ".value_kind": "hidden_grid_dims"}]},
            "other parameters",
        ),
        ({"kernarg_segment_size": 16}, r"a smaller block of parameters; expected at least 52"),
        ({"max_flat_workgroup_size": 32}, r"smaller workgroups; expected at least 64, got 32"),
    ],
)
def test_a_kernel_that_is_not_what_the_manifest_says_is_corrupt(
    device: runtime.Device, manifests: Manifests, put: Put, changes: dict[str, Any], message: str
) -> None:
    blob, made = made_for(manifests["saxpy"][0], "gfx1100", **changes)
    refused(device, put(made, blob), message)


def test_hidden_parameters_are_refused(
    device: runtime.Device, manifests: Manifests, put: Put
) -> None:
    manifest, _ = manifests["saxpy"]
    plain, _ = made_for(manifest, "gfx1100")
    places = read(plain, "").kernels["saxpy.kd"].arguments
    kinds = ["global_buffer"] * (len(places) - 1) + ["hidden_block_count_x"]
    args = [
        {".offset": at, ".size": n, ".value_kind": kind}
        for (at, n), kind in zip(places, kinds, strict=True)
    ]
    blob, made = made_for(manifest, "gfx1100", args=args)
    refused(device, put(made, blob), "no launch gives.*got hidden_block_count_x")


def test_waves_of_another_size_are_refused(
    device: runtime.Device, manifests: Manifests, put: Put
) -> None:
    manifest = replace(manifests["saxpy"][0], subgroup=64)
    blob, made = made_for(manifest, "gfx1100")
    refused(device, put(made, blob), "other waves; expected 64, got 32")


def test_a_missing_kernel_is_corrupt(
    device: runtime.Device, manifests: Manifests, put: Put
) -> None:
    manifest, _ = manifests["saxpy"]
    told = metadata("other", [(0, 8)], "gfx1100")
    blob = code_object("other", told, "gfx1100")
    refused(
        device,
        put(labelled(manifest, "gfx1100", blob), blob),
        r"no kernel 'saxpy'; expected a symbol saxpy.kd, got other.kd",
    )


def test_a_symbol_that_hsa_does_not_find_is_corrupt(
    device: runtime.Device, manifests: Manifests, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gristmill.runtime.devices.hsa import codeobject

    blob, made = made_for(manifests["saxpy"][0], "gfx1100")
    bundle = put(
        labelled(made, "gfx1100", hidden := blob.replace(b"saxpy.kd\0", b"saxpy.kx\0")), hidden
    )
    monkeypatch.setattr("gristmill.runtime.devices.hsa.code.codeobject.read", lambda b, w: found)
    found = codeobject._read(blob)
    refused(device, bundle, "no kernel 'saxpy'")


@pytest.mark.parametrize("status", [0x100D, 0x100F, 0x1017])
def test_code_that_this_release_does_not_take_is_a_refusal(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime, status: int
) -> None:
    held = fake.live()
    fake.set(fail_load=status)
    with pytest.raises(runtime.Refused, match=f"a release of ROCm that loads it .*{status:#x}"):
        device.load(bundle, "saxpy")
    assert fake.live() == held


def test_a_version_of_code_objects_that_this_release_does_not_know_is_a_refusal(
    device: runtime.Device, manifests: Manifests, put: Put, fake: FakeRuntime
) -> None:
    """ROCm's loader calls what it does not know invalid."""
    blob, made = made_for(manifests["saxpy"][0], "gfx11-generic")
    bundle = put(replace(made, facts={"code_object": 6}), blob)
    fake.set(fail_load=0x1010)
    with pytest.raises(runtime.Refused, match=r"a release of ROCm that loads it .*0x1010"):
        device.load(bundle, "saxpy")


def test_code_that_hsa_finds_invalid_is_corrupt(
    device: runtime.Device, bundle: runtime.Bundle, fake: FakeRuntime
) -> None:
    held = fake.live()
    fake.set(fail_load=0x1010)
    with pytest.raises(runtime.ArtifactCorrupt, match="an invalid code object, 0x1010"):
        device.load(bundle, "saxpy")
    assert fake.live() == held


def test_every_truncated_code_object_is_corrupt(manifests: Manifests) -> None:
    blob, _ = made_for(manifests["saxpy"][0], "gfx1100")
    assert read(blob, "").kernels.keys() == {"saxpy.kd"}
    for size in range(len(blob)):
        with pytest.raises(runtime.ArtifactCorrupt, match="the code object is damaged"):
            read(blob[:size], "here")


def test_a_code_object_with_any_byte_changed_is_read_or_corrupt(manifests: Manifests) -> None:
    blob, _ = made_for(manifests["saxpy"][0], "gfx1100")
    corrupt = 0
    for at in range(len(blob)):
        for value in {0, 0x7F, 0x91, 0xDD, 0xDF, 0xFF} - {blob[at]}:
            changed = bytearray(blob)
            changed[at] = value
            try:
                read(bytes(changed), "here")
            except runtime.ArtifactCorrupt:
                corrupt += 1
    assert corrupt > 500


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (4, 1), (7, 0), (16, 1), (18, 62)],
    ids=["magic", "32bit", "abi", "rel", "x86"],
)
def test_what_is_no_code_object_of_amd_says_so(manifests: Manifests, at: int, value: int) -> None:
    blob = bytearray(made_for(manifests["saxpy"][0], "gfx1100")[0])
    blob[at] = value
    with pytest.raises(runtime.ArtifactCorrupt, match="not a linked ELF file for AMD's HSA"):
        read(bytes(blob), "here")


def test_metadata_without_end_is_corrupt() -> None:
    told = metadata("saxpy", [(0, 8)], "gfx1100")
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    told["deep"] = deep
    with pytest.raises(runtime.ArtifactCorrupt, match="nested deeper than"):
        read(code_object("saxpy", told, "gfx1100"), "here")
