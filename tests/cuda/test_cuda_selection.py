"""What a CUDA device takes from a bundle, and what it refuses before the driver is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.backends.ptx import nv
from gristmill.backends.ptx.arch import ARCHS
from gristmill.runtime.devices.cuda.physical import features
from gristmill.runtime.devices.cuda.rules import EMBEDDED, ISA, newest_isa, targets

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


@pytest.mark.parametrize(
    ("capability", "own"), [((8, 7), ["cubin-sm_87"]), ((11, 0), ["cubin-sm_110a", "cubin-sm_110"])]
)
def test_an_embedded_module_is_offered_its_own_cubin_alone(
    capability: tuple[int, int], own: list[str]
) -> None:
    assert [t for t in targets(capability) if t.startswith("cubin")] == own
    assert "ptx-sm_80" in targets(capability)


@pytest.mark.parametrize("capability", [(8, 8), (8, 9), (9, 0), (12, 1)])
def test_no_other_device_is_offered_the_cubin_of_an_embedded_module(
    capability: tuple[int, int],
) -> None:
    own = capability[0] * 10 + capability[1]
    found = {f"cubin-sm_{n}" for n in EMBEDDED if n != own}
    assert not found & set(targets(capability))


def test_a_cubin_of_an_embedded_module_is_refused_elsewhere(
    fake: FakeDriver, make_bundle: Make
) -> None:
    fake.set(capability=89)
    bundle = make_bundle("cubin-sm_87")
    with (
        runtime.open_device("cuda") as device,
        pytest.raises(runtime.Refused, match=r"8\.7 exactly \(the device has 8\.9\)"),
    ):
        chosen(device, bundle)


@pytest.mark.parametrize("name", ARCHS)
def test_a_device_has_what_code_for_its_architecture_uses(name: str) -> None:
    number = int(name.removeprefix("sm_").rstrip("a"))
    found = features(number // 10, number % 10, True)
    assert ("bf16" in found) == ARCHS[name].bf16
    for feature in nv.FEATURES:
        if nv.has(name, feature):
            assert feature in found
    exact = name.endswith("a") or f"{name}a" not in ARCHS  # the suffixed form has them all
    wanted = {f for f in nv.FEATURES if nv.has(name, f)}
    assert not exact or {f for f in found if f.startswith("nv_")} <= wanted


def test_every_release_takes_what_its_table_row_says() -> None:
    for isa, (release, _) in ISA.items():
        version = release[0] * 1000 + release[1] * 10
        assert newest_isa(version) >= isa
        assert newest_isa(version - 10) < isa


def test_code_without_a_binary_for_the_device_is_refused_by_type(
    fake: FakeDriver, bundle: runtime.Bundle, device: runtime.Device
) -> None:
    fake.set(fail_load=209)
    with pytest.raises(runtime.Refused, match="no code for this architecture"):
        device.load(bundle, "saxpy")


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"dynamic_shared_bytes": "many"}},
        {"facts": {"cluster": "x"}},
        {"facts": {"tensor_maps": [{}]}},
        {"params": "odd access"},
    ],
)
def test_a_manifest_that_does_not_describe_code_for_cuda_is_invalid_by_type(
    fake: FakeDriver, bundle: runtime.Bundle, device: runtime.Device, changes: dict[str, Any]
) -> None:
    found = bundle.artifacts("saxpy", "s")[0]
    if "params" in changes:
        odd = replace(found.manifest.params[0], access="now and then")
        changes = {"params": (odd, *found.manifest.params[1:])}
    wrong = found._replace(manifest=replace(found.manifest, **changes))
    bundle._artifacts["saxpy", "s"] = (wrong,)
    with pytest.raises(runtime.ManifestInvalid, match="does not describe code for CUDA"):
        device.load(bundle, "saxpy")
    assert "modules" not in fake.live()


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
    found = bundle.artifacts("saxpy", "s")
    renamed = found[0]._replace(manifest=replace(found[0].manifest, entry="nothing"))
    bundle._artifacts["saxpy", "s"] = (renamed,)
    with pytest.raises(runtime.ArtifactCorrupt, match="no entry 'nothing'"):
        device.load(bundle, "saxpy")
    assert "modules" not in fake.live()
