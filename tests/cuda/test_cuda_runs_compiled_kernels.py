"""The runtime runs what the compiler makes: PTX in a bundle, its code executed by the model.

Everything between a caller's arrays and the kernel's arguments is the real one but the driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fake_cuda import FakeDriver, serve
from gristmill import runtime
from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import prepare
from gristmill.cli.check import check_one
from gristmill.cli.main import main
from gristmill.ir.core import Kernel
from gristmill.kernels import families
from gristmill.kernels.matmul_fragments import matmul_fragments
from gristmill.store.bundle import Entry, write_bundle
from kernel_text import kernel
from nv_kernels import FOR_HOPPER
from ptx_model import host
from ptx_tools import compiled, shipped

Make = Callable[..., runtime.Bundle]
ARCH = "sm_80"
# 60,000 bytes: more than a module may declare.
LARGE = """
    %2 = alloc {name="tile"} : workgroup<i32,15000>
    %3 = local_id {dim=0} : i32
    %4 = load %0, %3 : i32
    %5 = const 14936 : i32
    %6 = add %5, %3 : i32
    store %2, %6, %4
    barrier
    %7 = const 14999 : i32
    %8 = sub %7, %3 : i32
    %9 = load %2, %8 : i32
    store %1, %3, %9
    return"""
PAIR = "x: i32 buffer read, y: i32 buffer readwrite"


def entry_of(k: Kernel, checks: bool, folder: Path, code: Path) -> Entry:
    """The artifact of a kernel, its code put where the double looks for it."""
    text, manifest = compiled(k, ARCH, checks)
    blob = text.encode()
    serve(blob, host.build(prepare(k, Options(checks=checks), ARCHS[ARCH]), ARCH), code)
    path = folder / manifest.target / k.name / f"{manifest.sha256}.ptx"  # variants share a name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(blob)
    sites = (None,) * len(manifest.sites)
    return Entry(manifest, path.relative_to(folder).as_posix(), sites)


@pytest.fixture(scope="module")
def make(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Make:
    def bundle(kernels: list[Kernel], checks: bool = False) -> runtime.Bundle:
        folder = tmp_path_factory.mktemp("bundle")
        write_bundle(folder, [entry_of(k, checks, folder, folders[1]) for k in kernels])
        return runtime.open_bundle(folder)

    return bundle


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "checked"])
def everything(make: Make, require_gcc: None, request: pytest.FixtureRequest) -> runtime.Bundle:
    """All kernels that ship. With bounds checks, which are the same for every type: the first
    specialization of each, and fragments in small tiles (the shipped ones take LLVM half a minute
    with a check of every access)."""
    kernels = [k for _, k in shipped(f"ptx-{ARCH}")]
    if request.param:
        first = {k.name: k for k in reversed(kernels)}
        kernels = list((first | {"matmul_fragments": matmul_fragments.trace("f16")}).values())
    return make(kernels, request.param)


@pytest.fixture(scope="module")
def require_gcc() -> None:
    from need import Need

    Need.from_environment(os.environ)("gcc")


def test_every_shipped_kernel_agrees_with_its_reference(
    device: runtime.Device, everything: runtime.Bundle, rng: np.random.Generator, fake: FakeDriver
) -> None:
    host.functions().model_seed(int(rng.integers(1 << 32)))
    found = [
        check_one(device, everything, name, specialization, int(rng.integers(1 << 32)))
        for name, specializations in everything.kernels().items()
        for specialization in specializations
    ]
    assert [result for result in found if result.status != "ok"] == [], fake.misuse
    assert {result.kernel for result in found} == set(families()) - FOR_HOPPER


def test_the_command_checks_a_cuda_device(
    fake: FakeDriver, everything: runtime.Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "cuda", "--bundle", str(everything.root), "--kernel", "softmax"]) == 0
    table = capsys.readouterr().out
    assert "ptx-sm_80" in table
    assert "wrong" not in table
    assert "failed" not in table


def test_a_row_outside_the_table_is_a_fault_and_not_read(
    device: runtime.Device, everything: runtime.Bundle
) -> None:
    table, y = np.ones((3, 5), np.float32), np.full((4, 5), 7, np.float32)
    gather = device.load(everything, "gather", "f32")
    for row in (-1, 3, 2**31 - 1, -(2**31)):
        with pytest.raises(runtime.KernelFault, match="row number outside the table"):
            gather(table, np.array([2, row, 0, 1], np.int32), y, 5)


def test_workgroup_memory_beyond_48_kib_is_asked_for_at_launch(
    device: runtime.Device, make: Make, fake: FakeDriver
) -> None:
    loaded = device.load(make([kernel(PAIR, LARGE, "64 1 1")]), "test", "case")
    assert loaded.manifest.facts["dynamic_shared_bytes"] == 60000
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    device.launch(loaded, a := device.upload(x), b := device.upload(y), grid=(1, 1, 1))
    assert b.numpy().tolist() == list(range(63, -1, -1)), fake.misuse
    with device.record() as recording:
        recording.launch(loaded, b, a, grid=(1, 1, 1))
    recording.replay()
    assert a.numpy().tolist() == list(range(64)), fake.misuse


def test_what_the_model_finds_reaches_the_caller_as_a_lost_device(
    device: runtime.Device, make: Make, fake: FakeDriver
) -> None:
    body = "%2 = const 5 : i32\n%3 = load %0, %2 : i32\nstore %1, %2, %3\nreturn"
    loaded = device.load(make([kernel(PAIR, body)]), "test", "case")
    x = device.upload(np.zeros(4, np.int32))
    device.launch(loaded, x, device.upload(np.zeros(8, np.int32)), grid=(1, 1, 1))
    with pytest.raises(runtime.DeviceLost):
        device.synchronize()
    assert "4 bytes at 20 of x, which has 16" in fake.misuse
    fake.reset()
