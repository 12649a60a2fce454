"""Everything that ships for AMD runs: built as the build does, loaded and launched by the runtime,
executed instruction by instruction, and judged by `gristmill check`.

Between a caller's arrays and the last store, all is the real one but the HSA library and the GPU.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import struct
from collections.abc import Callable

import numpy as np
import pytest

from emulated_hsa import Emulated
from fake_hsa import Dispatch, FakeRuntime
from gristmill import runtime
from gristmill.cli.check import check_one
from gristmill.cli.main import main
from gristmill.ir.core import Kernel
from gristmill.kernels import families
from gristmill.store.bundle import Entry, write_bundle
from hsaco_tools import BASELINES, compiled, shipped
from kernel_text import kernel
from nv_kernels import FOR_NVIDIA

Make = Callable[..., runtime.Bundle]
PAIR = "x: i32 buffer read, y: i32 buffer readwrite"
BEYOND = "%2 = const 5000 : i32\n%3 = load %0, %2 : i32\nstore %1, %2, %3\nreturn"
GROUPS = """
    %2 = group_id {dim=0} : i32
    %3 = group_id {dim=1} : i32
    %4 = num_groups {dim=0} : i32
    %5 = mul %3, %4 : i32
    %6 = add %5, %2 : i32
    %7 = load %0, %6 : i32
    store %1, %6, %7
    return"""


@pytest.fixture(scope="module")
def tools() -> None:
    from need import Need

    require = Need.from_environment(os.environ)
    require("gcc")
    require("llvm-objdump")


@pytest.fixture(scope="module")
def make(tools: None, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """`make(arch, kernels, checks)`: a bundle of compiled kernels."""

    def bundle(arch: str, kernels: list[Kernel], checks: bool = False) -> runtime.Bundle:
        folder, entries = tmp_path_factory.mktemp(arch.replace(":", "_")), []
        for n, k in enumerate(kernels):
            blob, manifest = compiled(k, arch, checks)
            (folder / f"{n}.hsaco").write_bytes(blob)
            entries.append(Entry(manifest, f"{n}.hsaco", (None,) * len(manifest.sites)))
        write_bundle(folder, entries)
        return runtime.open_bundle(folder)

    return bundle


@pytest.fixture(scope="module")
def shipping(make: Make) -> Callable[[str], runtime.Bundle]:
    """All kernels that ship, for an architecture."""
    return functools.cache(lambda arch: make(arch, [k for _, k in shipped(f"hsaco-{arch}")]))


@pytest.fixture
def emulated(fake: FakeRuntime, rng: np.random.Generator) -> Callable[[str], Emulated]:
    """The double's GPU is of an architecture, and its kernels are executed."""

    def on(arch: str) -> Emulated:
        made = Emulated(fake, rng)
        fake.executor(made.run, arch)
        return made

    return on


@pytest.fixture(params=BASELINES)
def arch(request: pytest.FixtureRequest, emulated: Callable[[str], Emulated]) -> str:
    found: str = request.param
    emulated(found)
    return found


def test_every_kernel_that_ships_agrees_with_its_reference(
    arch: str,
    shipping: Callable[[str], runtime.Bundle],
    fake: FakeRuntime,
    rng: np.random.Generator,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle, seed = shipping(arch), str(rng.integers(1 << 32))
    status = main(["check", "hsa", "--bundle", str(bundle.root), "--json", "--seed", seed])
    report = json.loads(capsys.readouterr().out)
    bad = [
        (r["kernel"], r["status"], r["reason"]) for r in report["results"] if r["status"] != "ok"
    ]
    assert not bad, fake.failure
    assert status == 0
    assert report["counts"] == {"ok": sum(map(len, bundle.kernels().values()))}
    assert {r["kernel"] for r in report["results"]} == set(families()) - FOR_NVIDIA
    assert {r["target"] for r in report["results"]} == {f"hsaco-{arch}"}
    assert report["about"]["facts"]["isa"] == arch


@pytest.mark.parametrize(
    ("gpu", "target"),
    [
        ("gfx1151,gfx11-generic", "gfx11-generic"),
        ("gfx1200,gfx12-generic", "gfx12-generic"),
        ("gfx950:sramecc+:xnack-,gfx9-4-generic", "gfx9-4-generic"),
        ("gfx90a:sramecc+:xnack-", "gfx90a:xnack-"),
        ("gfx906:sramecc-:xnack-", "gfx906"),
        ("gfx1030", "gfx1030"),
    ],
)
def test_code_that_a_processor_runs_besides_its_own_computes(
    emulated: Callable[[str], Emulated], make: Make, gpu: str, target: str, fake: FakeRuntime
) -> None:
    emulated(gpu)
    kernels = [k for _, k in shipped(f"hsaco-{target}") if k.name in ("saxpy", "softmax")]
    bundle = make(target, kernels)
    with runtime.open_device("hsa", timeout=100) as device:
        for name, specializations in bundle.kernels().items():
            for specialization in specializations:
                found = check_one(device, bundle, name, specialization, 3)
                assert (found.status, found.target) == ("ok", f"hsaco-{target}"), fake.failure


def test_a_recording_with_hazards_replays_on_the_shipped_code(
    arch: str, shipping: Callable[[str], runtime.Bundle]
) -> None:
    with runtime.open_device("hsa", timeout=100) as device:
        saxpy = device.load(shipping(arch), "saxpy", "f32")
        a, b = (device.upload(np.full(300, v, np.float32)) for v in (1, 2))
        with device.record() as recording:
            recording.launch(saxpy, a, b, 2.0)  # b = 4
            recording.launch(saxpy, b, a, 0.5)  # a = 3
        recording.replay()
        recording.replay()  # b = 10, a = 8
        assert (set(a.numpy()), set(b.numpy())) == ({8}, {10})


def test_a_failing_assert_sets_its_bit_and_the_device_lives(
    arch: str, shipping: Callable[[str], runtime.Bundle]
) -> None:
    table, y = np.ones((3, 5), np.float32), np.full((4, 5), 7, np.float32)
    with runtime.open_device("hsa", timeout=100) as device:
        gather = device.load(shipping(arch), "gather", "f32")
        with pytest.raises(runtime.KernelFault, match="row number outside the table"):
            gather(table, np.array([2, 3, 0, 1], np.int32), y, 5)
        gather(table, np.array([2, 1, 0, 1], np.int32), y, 5)
        assert (y == 1).all()


def test_a_packet_gives_a_kernel_the_memory_that_it_takes(fake: FakeRuntime, make: Make) -> None:
    body = """
    %2 = alloc {name="shared"} : workgroup<i32,64>
    %3 = alloc {name="own"} : private<i32,600>
    %4 = local_linear_id : i32
    %5 = load %0, %4 : i32
    %6 = const 63 : i32
    %7 = and %5, %6 : i32
    store %3, %7, %5
    store %2, %4, %5
    barrier
    %8 = load %3, %4 : i32
    %9 = load %2, %7 : i32
    %10 = add %8, %9 : i32
    store %1, %4, %10
    return"""
    seen = []

    def look(launch: Dispatch) -> None:
        seen.append(struct.unpack("<24xII", ctypes.string_at(launch.packet, 32)))

    fake.executor(look, "gfx1100")
    bundle = make("gfx1100", [kernel(PAIR, body)])
    with runtime.open_device("hsa") as device:
        loaded = device.load(bundle, "test")
        loaded(np.zeros(64, np.int32), np.zeros(64, np.int32), grid=1)
        facts = loaded.manifest.facts
    assert facts["lds_bytes"] == 256
    assert facts["scratch_bytes"] >= 2400
    assert seen == [(facts["scratch_bytes"], 256)]


def test_groups_of_a_folded_grid_know_who_they_are(arch: str, make: Make) -> None:
    bundle = make(arch, [kernel(PAIR, GROUPS, "1 1 1")])
    with runtime.open_device("hsa", timeout=100) as device:
        ids = device.load(bundle, "test", "case")
        x = device.upload(np.arange(65539, dtype=np.int32))
        y = device.upload(np.full(65539, -1, np.int32))
        device.launch(ids, x, y, grid=(1, 65539, 1))
        assert np.array_equal(y.numpy(), np.arange(65539))


def test_an_access_beyond_its_buffer_is_a_fault_where_it_is_checked(arch: str, make: Make) -> None:
    bundle = make(arch, [kernel(PAIR, BEYOND)], True)
    with runtime.open_device("hsa", timeout=100) as device:
        loaded = device.load(bundle, "test", "case")
        x, y = (device.upload(np.ones(8, np.int32)) for _ in range(2))
        device.launch(loaded, x, y, grid=(1, 1, 1))
        with pytest.raises(runtime.KernelFault, match="index out of bounds"):
            device.synchronize()
        assert set(y.numpy()) == {1}


def test_an_access_of_memory_that_is_not_there_is_a_lost_device(
    arch: str, make: Make, fake: FakeRuntime
) -> None:
    bundle = make(arch, [kernel(PAIR, BEYOND)])
    device = runtime.open_device("hsa", timeout=100)
    loaded = device.load(bundle, "test", "case")
    x, y = (device.upload(np.ones(8, np.int32)) for _ in range(2))
    device.launch(loaded, x, y, grid=(1, 1, 1))
    with pytest.raises(runtime.DeviceLost, match="memory that is not there"):
        device.synchronize()
    assert "kernel test" in fake.failure
    device.close()
