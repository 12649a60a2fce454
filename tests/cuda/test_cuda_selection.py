"""What a CUDA device takes from a bundle, and what it refuses before the driver is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.runtime.ptx import ISA, newest_isa, targets

Make = Callable[..., runtime.Bundle]


def chosen(device: runtime.Device, bundle: runtime.Bundle) -> str:
    return device.load(bundle, "saxpy").manifest.target


@pytest.mark.parametrize(
    ("capability", "built", "expected"),
    [
        (90, ["ptx-sm_80", "cubin-sm_90"], "cubin-sm_90"),
        (90, ["cubin-sm_90", "ptx-sm_90a", "cubin-sm_90a"], "cubin-sm_90a"),
        (90, ["cubin-sm_80", "ptx-sm_80"], "ptx-sm_80"),
        (89, ["cubin-sm_86", "ptx-sm_89", "cubin-sm_80"], "cubin-sm_86"),
        (89, ["ptx-sm_75", "ptx-sm_86", "ptx-sm_90"], "ptx-sm_86"),
        (120, ["ptx-sm_90a", "ptx-sm_80", "cubin-sm_90"], "ptx-sm_80"),
    ],
)
def test_the_best_code_for_the_architecture_is_chosen(
    fake: FakeDriver, make_bundle: Make, capability: int, built: list[str], expected: str
) -> None:
    fake.set(capability=capability)
    with runtime.open_device("cuda") as device:
        assert chosen(device, make_bundle(*built)) == expected
        y = np.ones(4, np.float32)
        device.load(make_bundle(*built), "saxpy")(np.ones(4, np.float32), y, 1.0)
        assert set(y) == {2}


@pytest.mark.parametrize("capability", [89, 100])
def test_code_for_exactly_9_0_is_refused_elsewhere(
    fake: FakeDriver, make_bundle: Make, capability: int
) -> None:
    fake.set(capability=capability)
    bundle = make_bundle("ptx-sm_90a", "cubin-sm_90a")
    with runtime.open_device("cuda") as device, pytest.raises(runtime.Refused) as caught:
        chosen(device, bundle)
    lacks = {lack.target: lack.missing[0] for lack in caught.value.refusal.lacks}
    has = f"(the device has {capability // 10}.{capability % 10})"
    assert lacks == {
        "ptx-sm_90a": f"compute capability 9.0 exactly {has}",
        "cubin-sm_90a": f"compute capability 9.0 exactly {has}",
    }


def test_a_bundle_without_the_architecture_says_what_each_artifact_lacks(
    fake: FakeDriver, make_bundle: Make
) -> None:
    fake.set(capability=80)
    bundle = make_bundle("ptx-sm_89", "cubin-sm_90", "cubin-sm_75")
    with runtime.open_device("cuda") as device, pytest.raises(runtime.Refused) as caught:
        chosen(device, bundle)
    assert sorted(caught.value.refusal.lacks) == [
        ("cubin-sm_75", 0, ("compute capability 7.5 to 7.9 (the device has 8.0)",)),
        ("cubin-sm_90", 0, ("compute capability 9.0 to 9.9 (the device has 8.0)",)),
        ("ptx-sm_89", 0, ("compute capability 8.9 or later (the device has 8.0)",)),
    ]


def test_ptx_newer_than_the_driver_names_the_driver_that_it_needs(
    fake: FakeDriver, make_bundle: Make
) -> None:
    fake.set(driver=12040)
    bundle = make_bundle("ptx-sm_90", isa="8.7")
    with runtime.open_device("cuda") as device, pytest.raises(runtime.Refused) as caught:
        chosen(device, bundle)
    assert "driver 570 or later, of CUDA 12.8, for PTX 8.7" in str(caught.value)
    assert "CUDA 12.4" in str(caught.value)


def test_older_ptx_is_taken_where_the_newer_is_beyond_the_driver(
    fake: FakeDriver, make_bundle: Make, tmp_path: Path
) -> None:
    fake.set(driver=12040)
    bundle = make_bundle("ptx-sm_80", "ptx-sm_90")
    newer = bundle.artifacts("saxpy", "s")[1]
    newer.manifest.facts["ptx_isa"] = "9.0"
    with runtime.open_device("cuda") as device:
        assert chosen(device, bundle) == "ptx-sm_80"


def test_ptx_of_an_unknown_version_is_refused(fake: FakeDriver, make_bundle: Make) -> None:
    bundle = make_bundle("ptx-sm_80", isa="12.1")
    with (
        runtime.open_device("cuda") as device,
        pytest.raises(runtime.Refused, match=r"PTX 12\.1"),
    ):
        chosen(device, bundle)


def test_a_cubin_of_a_later_major_release_needs_its_driver(
    fake: FakeDriver, make_bundle: Make
) -> None:
    fake.set(driver=12040)
    with runtime.open_device("cuda") as device:
        assert chosen(device, make_bundle("cubin-sm_90", "ptx-sm_80")) == "ptx-sm_80"


def test_other_devices_refuse_without_speaking_of_architectures(make_bundle: Make) -> None:
    with runtime.open_device("interp") as device, pytest.raises(runtime.Refused) as caught:
        chosen(device, make_bundle("ptx-sm_80"))
    assert caught.value.refusal.lacks == ()


@pytest.mark.parametrize("capability", [(7, 5), (8, 9), (9, 0), (10, 0), (12, 0), (13, 1)])
def test_targets_stand_best_first(capability: tuple[int, int]) -> None:
    listed = targets(capability)
    own = capability[0] * 10 + capability[1]
    assert listed.index(f"cubin-sm_{own}") < listed.index("ptx-sm_75")
    plain = [int(t.partition("_")[2]) for t in listed if t.startswith("ptx") and t[-1] != "a"]
    assert plain == sorted(plain, reverse=True)
    assert max(plain) == own


def test_every_release_takes_what_its_table_row_says() -> None:
    for isa, (release, _) in ISA.items():
        version = release[0] * 1000 + release[1] * 10
        assert newest_isa(version) >= isa
        assert newest_isa(version - 10) < isa


@pytest.mark.parametrize("status", [218, 300, 200])
def test_code_that_the_driver_refuses_shows_the_assemblers_log(
    fake: FakeDriver, bundle: runtime.Bundle, device: runtime.Device, status: int
) -> None:
    fake.set(fail_load=status)
    with pytest.raises(runtime.ArtifactCorrupt, match="line 7; error: unexpected token"):
        device.load(bundle, "saxpy")


def test_a_driver_that_cannot_take_the_ptx_after_all_refuses_by_type(
    fake: FakeDriver, bundle: runtime.Bundle, device: runtime.Device
) -> None:
    fake.set(fail_load=222)
    with pytest.raises(runtime.Refused, match="newer than the driver"):
        device.load(bundle, "saxpy")


def test_code_without_its_entry_is_corrupt(
    fake: FakeDriver, bundle: runtime.Bundle, device: runtime.Device
) -> None:
    from dataclasses import replace

    found = bundle.artifacts("saxpy", "s")
    renamed = found[0]._replace(manifest=replace(found[0].manifest, entry="nothing"))
    bundle._artifacts["saxpy", "s"] = (renamed,)
    with pytest.raises(runtime.ArtifactCorrupt, match="no entry 'nothing'"):
        device.load(bundle, "saxpy")
    assert "modules" not in fake.live()
