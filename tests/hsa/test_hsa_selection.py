"""What an HSA device takes from a bundle, and what it refuses before the library is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fake_hsa import FakeRuntime, made_for
from gristmill import runtime
from gristmill.runtime.devices.hsa.physical import features, subgroup_sizes
from gristmill.runtime.devices.hsa.rules import FAMILIES, generic_of, targets
from gristmill.store.bundle import Entry, Place, write_bundle
from gristmill.store.manifest import Manifest

Make = Callable[..., runtime.Bundle]
MI300 = "gfx942:sramecc+:xnack-"


@pytest.mark.parametrize(
    ("isas", "expected"),
    [
        (["gfx1100"], ["gfx1100", "gfx11-generic"]),
        (["gfx1151", "gfx11-generic"], ["gfx1151", "gfx11-generic"]),
        (["gfx1036"], ["gfx1036", "gfx10-3-generic"]),
        (["gfx1201"], ["gfx1201", "gfx12-generic"]),
        (["gfx906:sramecc-:xnack-"], None),
        (["gfx90a:sramecc+:xnack-"], None),
        (["gfx1250", "gfx12-5-generic"], ["gfx1250", "gfx12-5-generic"]),
        (
            [MI300],
            [MI300, "gfx942:sramecc+", "gfx942:xnack-", "gfx942", "gfx9-4-generic"],
        ),
    ],
)
def test_targets_go_from_the_exact_to_the_generic(
    isas: list[str], expected: list[str] | None
) -> None:
    found = [t.removeprefix("hsaco-") for t in targets(isas)]
    if expected is None:
        processor, sramecc, xnack = isas[0].split(":")
        own = [f"{processor}:{sramecc}", f"{processor}:{xnack}", processor]
        expected = [isas[0], *own, *(["gfx9-generic"] if processor == "gfx906" else [])]
    assert found == expected


def test_code_of_the_family_for_some_of_the_settings_is_taken() -> None:
    family = "gfx9-4-generic:sramecc+:xnack-"
    found = [t.removeprefix("hsaco-") for t in targets([MI300, family])]
    assert found[4:] == [
        family, "gfx9-4-generic:sramecc+", "gfx9-4-generic:xnack-", "gfx9-4-generic"
    ]  # fmt: skip
    told_once = targets(["gfx906:sramecc-:xnack-", "gfx9-generic:xnack-"])
    assert [*told_once[4:]] == ["hsaco-gfx9-generic:xnack-", "hsaco-gfx9-generic"]


def test_every_processor_is_of_one_family() -> None:
    members = [p for names in FAMILIES.values() for p in names.split()]
    assert len(members) == len(set(members))
    assert generic_of("gfx908") is None  # whose code gfx9-generic is not
    assert generic_of("gfx942") == "gfx9-4-generic"
    assert generic_of("gfx940") is None  # which LLVM no longer has, and its family neither


@pytest.mark.parametrize(
    ("gpu", "made", "expected"),
    [
        ("gfx1100", ["gfx11-generic", "gfx1100"], "gfx1100"),
        ("gfx1151,gfx11-generic", ["gfx1100", "gfx11-generic"], "gfx11-generic"),
        ("gfx11-generic,gfx1151", ["gfx11-generic", "gfx1151"], "gfx1151"),
        (MI300, ["gfx942", "gfx942:xnack-"], "gfx942:xnack-"),
        (MI300, ["gfx942:xnack+", "gfx942:sramecc-", "gfx942"], "gfx942"),
        (MI300, ["gfx942", "gfx942:xnack-", MI300], MI300),
        (f"{MI300},gfx9-4-generic", ["gfx942:xnack+", "gfx9-4-generic"], "gfx9-4-generic"),
    ],
)
def test_the_best_code_for_the_processor_is_chosen_and_runs(
    fake: FakeRuntime, make_bundle: Make, gpu: str, made: list[str], expected: str
) -> None:
    fake.isas(gpu)
    bundle = make_bundle(*made)
    with runtime.open_device("hsa") as device:
        saxpy = device.load(bundle, "saxpy")
        assert saxpy.manifest.target == f"hsaco-{expected}"
        y = np.ones(4, np.float32)
        saxpy(np.ones(4, np.float32), y, 1.0)
        assert set(y) == {2}


def test_a_bundle_without_the_processor_says_what_each_artifact_is_for(
    device: runtime.Device, make_bundle: Make
) -> None:
    bundle = make_bundle("gfx1201", "gfx90a:xnack+")
    with pytest.raises(runtime.Refused, match="is refused on hsa") as caught:
        device.load(bundle, "saxpy")
    assert sorted(caught.value.refusal.lacks) == [
        ("hsaco-gfx1201", 0, ("the processor gfx1201 (the device is gfx1100)",)),
        ("hsaco-gfx90a:xnack+", 0, ("the processor gfx90a:xnack+ (the device is gfx1100)",)),
    ]


def test_a_barrier_of_the_whole_grid_is_refused(
    device: runtime.Device, manifests: dict[str, tuple[Manifest, tuple[Place, ...]]], tmp_path: Path
) -> None:
    """Nothing keeps all workgroups of a launch on the device at once."""
    blob, made = made_for(manifests["saxpy"][0], "gfx1100")
    (tmp_path / "code.hsaco").write_bytes(blob)
    asks = replace(made, requires=("grid_barrier",), facts={"grid_barrier": True})
    write_bundle(tmp_path, [Entry(asks, "code.hsaco", ())])
    with pytest.raises(runtime.Refused, match="lacks feature grid_barrier") as caught:
        device.load(runtime.open_bundle(tmp_path), "saxpy")
    ((target, _, lacks),) = caught.value.refusal.lacks
    assert target == "hsaco-gfx1100"
    assert "grid_barrier" in lacks[0]


def test_a_device_tells_what_it_is(fake: FakeRuntime) -> None:
    fake.isas("gfx1100,gfx11-generic", f"{MI300},gfx9-4-generic")
    fake.set(memory=1 << 30)
    with runtime.open_device("hsa:1") as device:
        has = device.capabilities
    assert (has.device, has.name) == ("hsa:1", "Fake Instinct 1 (gfx942)")
    assert has.subgroup_sizes == (64,)
    assert has.limits.shared_bytes == 65536
    assert has.limits.buffer_bytes == 1 << 30
    assert has.limits.workgroup_size == (1024, 1024, 1024)
    assert has.limits.grid == ((1 << 32) // 1024 - 1, 65535, 65535)
    assert has.facts["isa"] == MI300
    assert has.facts["family"] == "gfx9-4-generic"
    assert has.facts["compute_units"] == 96
    assert has.facts["type"] == "discrete"
    assert not has.unified_memory
    assert "dot4" in has.features
    assert "grid_barrier" not in has.features


def test_what_a_processor_has_follows_from_its_name() -> None:
    assert subgroup_sizes("gfx1100") == subgroup_sizes("gfx1030") == (32, 64)
    assert subgroup_sizes("gfx90a") == (64,)
    assert "dot4" not in features("gfx900")
    assert "dot4" in features("gfx906")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("hsa", "Fake Radeon (gfx1100)"),
        ("hsa:1", "Fake Instinct 1 (gfx942)"),
        ("hsa:instinct", "Fake Instinct 1 (gfx942)"),
        ("hsa:gfx942", "Fake Instinct 1 (gfx942)"),
    ],
)
def test_devices_are_chosen_by_number_or_name(fake: FakeRuntime, spec: str, name: str) -> None:
    fake.isas("gfx1100", "gfx942")
    with runtime.open_device(spec) as device:
        assert device.capabilities.name == name
    found = [d for d in runtime.find_devices() if d.spec.startswith("hsa")]
    assert [d.spec for d in found] == ["hsa:0", "hsa:1"]
    assert fake.users == 0


@pytest.mark.parametrize("spec", ["hsa:2", "hsa:MI300", "hsa:²"])
def test_an_unknown_device_lists_those_there_are(fake: FakeRuntime, spec: str) -> None:
    with pytest.raises(runtime.NoDevice, match=r"0: Fake Radeon \(gfx1100\)"):
        runtime.open_device(spec)
    assert fake.users == 0


def test_a_release_that_tells_less_gives_an_estimated_budget(fake: FakeRuntime) -> None:
    fake.set(tells=0)
    with runtime.open_device("hsa") as device:
        report = device.memory()
        assert report.estimated
        assert report.budget == report.total
        device.upload(np.ones(4, np.float32))
