"""The command on an HSA device: what it tells of one, and a report that can be sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_hsa import FakeRuntime
from gristmill import runtime
from gristmill.cli import check
from gristmill.cli.main import main
from gristmill.kernels import families
from gristmill.kernels.family import Family

Make = Callable[..., runtime.Bundle]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """References for some of the samples: that of saxpy, and none of its inputs fits the others."""
    saxpy = families()["saxpy"]
    found: dict[str, Family] = {"saxpy": saxpy}
    monkeypatch.setattr(check, "families", lambda: found)


def test_devices_lists_gpus_and_what_each_is(
    fake: FakeRuntime, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.isas("gfx1100", "gfx942:sramecc+:xnack-")
    assert main(["devices", "--long"]) == 0
    told = capsys.readouterr().out
    assert "hsa:0" in told
    assert "Fake Instinct 1 (gfx942)" in told
    assert "hsaco-gfx942:sramecc+:xnack-, hsaco-gfx942:sramecc+" in told
    assert main(["devices", "--json"]) == 0
    found = {d["device"]: d for d in json.loads(capsys.readouterr().out)}
    assert found["hsa:1"]["capabilities"]["subgroup_sizes"] == [64]
    assert fake.users == 0


def test_devices_says_what_is_missing(
    fake: FakeRuntime, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.set(init=0x1008)
    assert main(["devices"]) == 0
    (line,) = [w for w in capsys.readouterr().out.splitlines() if w.startswith("hsa ")]
    assert "none: hsa_init" in line
    assert "/dev/kfd" in line
    assert main(["check", "hsa", "--bundle", str(Path(__file__).parent)]) == 2


def test_a_report_says_on_what_it_was_made(
    make_bundle: Make, fake: FakeRuntime, known: None, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(make_bundle("gfx1100").root)
    words = ["check", "hsa", "--bundle", root, "--kernel", "saxpy", "--json", "--seed", "7"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["device"] == "hsa: Fake Radeon (gfx1100)"
    assert report["counts"] == {"ok": 1}
    about = report["about"]
    assert about["facts"]["isa"] == "gfx1100"
    assert about["driver"] == "HSA runtime 1.15"
    assert about["targets"] == ["hsaco-gfx1100", "hsaco-gfx11-generic"]
    assert about["host"].startswith("x86_64, Linux")
    assert {"gristmill", "python", "numpy", "limits", "features"} <= about.keys()


def test_one_kernel_that_loses_the_device_is_one_failure(
    make_bundle: Make, fake: FakeRuntime, known: None, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle("gfx1100")
    fake.set(fail_after=0, fail_status=42)
    wanted = [("saxpy", "s")] * 3
    original = runtime.open_device

    def opening(spec: str) -> runtime.Device:
        if fake.users:  # again: the first has been lost
            fake.set(fail_after=-1)
        return original(spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check.runtime, "open_device", opening)
        has, results = check.check_each("hsa", bundle, wanted, 1, False)
    assert has.name == "Fake Radeon (gfx1100)"
    assert [r.status for r in results] == ["failed", "ok", "ok"]
    assert "an illegal instruction" in results[0].reason


def test_a_device_that_stays_lost_fails_the_rest(
    make_bundle: Make, fake: FakeRuntime, known: None
) -> None:
    bundle = make_bundle("gfx1100")
    fake.set(fail_after=0, fail_status=42)
    original, opened = runtime.open_device, []

    def opening(spec: str) -> runtime.Device:
        if opened:
            raise runtime.NoDevice("it is gone")
        opened.append(original(spec))
        return opened[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check.runtime, "open_device", opening)
        _, results = check.check_each("hsa", bundle, [("saxpy", "s")] * 2, 1, False)
    assert [r.status for r in results] == ["failed", "failed"]
    assert "poisoned" in results[1].reason
