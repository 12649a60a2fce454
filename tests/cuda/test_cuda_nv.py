"""Tensor maps, barriers of the grid and clusters from the caller's arrays to the kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fake_cuda import FakeDriver, serve
from gristmill import runtime
from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import prepare
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from gristmill.kernels.family import DTYPES, compare
from gristmill.kernels.nv_matmul import FAMILIES, nv_matmul
from gristmill.store.bundle import Entry, write_bundle
from nv_kernels import box_case, box_moved, grid_sums, product
from ptx_model import host
from ptx_tools import compiled

ARCH = "sm_90a"
(FAMILY,) = FAMILIES
Make = Callable[..., runtime.Bundle]


@pytest.fixture
def make(folders: tuple[Path, Path], tmp_path: Path, require: Callable[..., None]) -> Make:
    require("gcc")

    def bundle(*kernels: Kernel) -> runtime.Bundle:
        entries = []
        for k in kernels:
            text, manifest = compiled(k, ARCH)
            serve(text.encode(), host.build(prepare(k, Options(), ARCHS[ARCH]), ARCH), folders[1])
            file = tmp_path / f"{k.name}.ptx"
            file.write_text(text)
            entries.append(Entry(manifest, file.name, (None,) * len(manifest.sites)))
        write_bundle(tmp_path, entries)
        return runtime.open_bundle(tmp_path)

    return bundle


@pytest.mark.parametrize("pairs", [False, True])
def test_the_matrix_product_by_launch_and_by_recording(
    device: runtime.Device, make: Make, fake: FakeDriver, rng: np.random.Generator, pairs: bool
) -> None:
    constexprs = {"CLUSTER": 2} if pairs else {}
    full = {name: default for name, (_, default) in nv_matmul.constexprs.items()} | constexprs
    loaded = device.load(make(nv_matmul.trace("s", **constexprs)), "nv_matmul", "s")
    wanted = {"nv_async", "nv_roles", "nv_warpgroup"} | ({"nv_cluster"} if pairs else set())
    assert set(loaded.manifest.requires) == wanted
    for args in FAMILY.inputs(rng, full):
        expected = FAMILY.reference(args, full)["c"]
        loaded(**args)
        assert compare(args["c"], expected, DTYPES["f16"]).ok, fake.misuse
        a, b, c = (device.upload(args[name]) for name in "abc")
        c.write(np.zeros_like(args["c"]))
        with device.record() as recording:
            recording.launch(loaded, a, b, c, *list(args.values())[3:])
        recording.replay()
        assert compare(c.numpy(), expected, DTYPES["f16"]).ok, fake.misuse


def test_rows_that_no_tensor_map_takes_are_refused_by_type(
    device: runtime.Device, make: Make
) -> None:
    loaded = device.load(make(nv_matmul.trace("s")), "nv_matmul", "s")
    a, b, c = (np.zeros(n, np.float16) for n in (64 * 60, 64 * 60, 64 * 64))
    with pytest.raises(runtime.ArgumentError, match=r"misaligned rows; expected strides that are"):
        loaded(a, b, c, 64, 64, 60, 1.0)
    with pytest.raises(runtime.ArgumentError, match="tensor is greater than its buffer"):
        loaded(a, b, c, 64, 64, 64, 1.0)
    with pytest.raises(runtime.ArgumentError, match="an extent that no tensor has"):
        loaded(a, b, c, 64, 64, 0, 1.0)


def test_scalars_of_a_recording_change_its_tensor_maps(
    device: runtime.Device, make: Make, fake: FakeDriver
) -> None:
    loaded = device.load(make(box_moved.trace("s", SWIZZLE=0)), "box_moved", "s")
    x = np.arange(16 * 128, dtype=np.float16)
    source, target = device.upload(x), device.upload(np.zeros_like(x))
    with device.record() as recording:
        recording.launch(loaded, source, target, 16, 128, 0, -1)
    recording.replay()
    assert (target.numpy().reshape(16, 128)[:7, :64] == x.reshape(16, 128)[1:8, 1:65]).all()
    recording.rewrite(0, n0=32, n1=64, at=-1)
    recording.replay()
    assert (target.numpy().reshape(32, 64)[:7] == x.reshape(32, 64)[:7]).all(), fake.misuse


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_tensors_of_every_rank(
    device: runtime.Device, make: Make, fake: FakeDriver, rng: np.random.Generator, rank: int
) -> None:
    loaded = device.load(make(box_moved.trace("s", RANK=rank)), "box_moved", "s")
    args, expected = box_case(rng, "f16", rank, 8, 64)
    loaded(*args)
    assert (args[1] == expected[1]).all(), fake.misuse


def test_a_barrier_of_the_grid_is_a_cooperative_launch(
    device: runtime.Device, make: Make, fake: FakeDriver, rng: np.random.Generator
) -> None:
    """The model runs workgroups in turn, so one is all it can do."""
    loaded = device.load(make(grid_sums.trace("s")), "grid_sums", "s")
    x = rng.integers(0, 100, 64).astype(np.int32)
    part, y = np.zeros(1, np.int32), np.zeros(1, np.int32)
    for _ in range(3):
        loaded(x, part, y)
        assert y[0] == x.sum(), fake.misuse
    assert fake.lib.fake_cooperative() == 3
    buffers = [device.upload(a) for a in (x, part, y)]
    more = [device.upload(a) for a in (x, part, y)]
    with device.record() as recording:
        recording.launch(loaded, *buffers)
        recording.launch(loaded, *more)
    recording.replay()
    assert more[2].numpy()[0] == x.sum(), fake.misuse
    roots = device.api.call("cuGraphGetRootNodes", recording._handle._graph, 0)
    assert roots[-1] == 1  # the second waits for the first, whose counter it uses
    assert fake.lib.fake_cooperative() == 5


def test_a_grid_that_the_device_does_not_hold_at_once_is_refused(
    device: runtime.Device, make: Make
) -> None:
    loaded = device.load(make(grid_sums.trace("s")), "grid_sums", "s")
    groups = 132 * 32 + 1
    x, part = np.zeros(64 * groups, np.int32), np.zeros(groups, np.int32)
    with pytest.raises(
        runtime.LimitExceeded, match="workgroups that wait for each other"
    ) as caught:
        loaded(x, part, part.copy())
    assert (caught.value.maximum, caught.value.value) == (groups - 1, groups)


@kernel(workgroup=lambda: 64, grid=lambda: len(y) // 64)
def next_after(x: Read[i32], y: Write[i32]):
    i = global_id(0)
    nv.wait_for_previous()
    y[i] = x[i] + 1
    nv.launch_next()


def test_dependent_launches_begin_early_in_a_recording(
    device: runtime.Device, make: Make, fake: FakeDriver
) -> None:
    loaded = device.load(make(next_after.trace("s")), "next_after", "s")
    assert loaded.manifest.requires == ("nv_dependent_launch",)
    a, b, c = (device.upload(np.arange(128, dtype=np.int32)) for _ in range(3))
    device.launch(loaded, a, b)
    before = fake.lib.fake_early()
    with device.record() as recording:
        recording.launch(loaded, b, c)
        recording.launch(loaded, c, a)
        recording.launch(loaded, a, b)
    recording.replay()
    assert fake.lib.fake_early() - before == 2
    assert (b.numpy() == np.arange(128) + 4).all(), fake.misuse
    with device.record(timed=True) as timed:
        timed.launch(loaded, b, c)
        timed.launch(loaded, c, a)
    timed.replay()
    assert fake.lib.fake_early() - before == 2
    assert (a.numpy() == np.arange(128) + 6).all(), fake.misuse


@pytest.mark.parametrize(("capability", "features"), [(80, 0), (89, 0), (90, 1), (100, 0)])
def test_other_devices_refuse_what_is_made_for_hopper(
    fake: FakeDriver, make: Make, capability: int, features: int
) -> None:
    fake.set(capability=capability)
    bundle = make(product.trace("s"))
    with runtime.open_device("cuda") as opened:
        assert ("nv_warpgroup" in opened.capabilities.features) == bool(features)
        if features:
            opened.load(bundle, "product", "s")
            return
        with pytest.raises(runtime.Refused, match=r"compute capability 9.0 exactly"):
            opened.load(bundle, "product", "s")
