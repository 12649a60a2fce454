"""What the loader packs is what PTX declares, and what the calling convention says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fake_cuda import FakeDriver
from gristmill import runtime
from gristmill.ir.abi import gpu_bytes, gpu_layout
from gristmill.ir.dtypes import DTYPES, Access
from gristmill.ir.interface import Param
from gristmill.runtime.devices.parameters import parameter_format
from gristmill.store.bundle import Entry, write_bundle
from gristmill.store.manifest import Manifest


def random_params(rng: np.random.Generator) -> list[Param]:
    names, accesses = list(DTYPES), list(Access)
    return [
        Param(
            f"p{n}",
            str(rng.choice(["buffer", "slot", "scalar", "scalar"])),
            DTYPES[str(rng.choice(names))],
            accesses[rng.integers(len(accesses))],
        )
        for n in range(rng.integers(0, 20))
    ]


@pytest.mark.parametrize("faults", [False, True])
def test_the_packed_format_is_the_calling_convention(
    rng: np.random.Generator, faults: bool
) -> None:
    for _ in range(50):
        params = random_params(rng)
        memory = [p for p in params if p.is_memory]
        scalars = [int(rng.integers(1 << p.dtype.bits - 1)) for p in params if not p.is_memory]
        pointers, counts = (rng.integers(1 << 40, size=len(memory)).tolist() for _ in range(2))
        grid = (1, 2, 3)
        fault = [1 << 41, 77] if faults else []
        packed = struct.pack(
            parameter_format(params, faults), *pointers, *scalars, *counts, *fault, *grid
        )
        assert packed == gpu_bytes(params, faults, pointers, scalars, counts, 1 << 41, 77, grid)


@pytest.mark.parametrize("name", ["saxpy", "add_slot", "checked_root", "scalars"])
def test_ptx_of_the_compiler_declares_the_same_parameters(
    fake: FakeDriver, texts: dict[str, str], name: str
) -> None:
    from gristmill.backends.compile import Options, compile_kernel

    blob, manifest = compile_kernel(texts[name], "ptx-sm_80", Options())
    assert fake.parameters(blob, manifest.entry) == expected(manifest)


def expected(manifest: Manifest) -> list[tuple[int, int]]:
    """Offset and size of each parameter."""
    params = [
        Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access), p.may_alias)
        for p in manifest.params
    ]
    layout = gpu_layout(params, bool(manifest.sites))
    sizes = [p.dtype.bytes for p in params if not p.is_memory]
    found = [(at, 8) for at in layout.pointers]
    found += zip(layout.scalars, sizes, strict=True)
    found += [(at, 8) for at in layout.counts]
    if layout.faults is not None and layout.fault_base is not None:
        found += [(layout.faults, 8), (layout.fault_base, 4)]
    return found + [(layout.grid + 4 * n, 4) for n in range(3)]


def test_a_launch_fills_its_block_by_the_calling_convention(
    device: runtime.Device, bundle: runtime.Bundle
) -> None:
    takes = {
        "saxpy": (*[device.upload(np.ones(n, np.float32)) for n in (9, 7)], 1.5),
        "add_slot": (device.upload(np.zeros(5, np.int32)), device.slot("i32", 3)),
        "checked_root": tuple(device.upload(np.ones(n, np.float32)) for n in (80, 70)),
        "scalars": (device.upload(np.zeros(768, np.int64)), -5, 65535, True, 2.75, -(1 << 40)),
    }
    for name, args in takes.items():
        kernel = device.load(bundle, name)
        for _ in range(2):  # checked in full, then quickly
            command = device._command(kernel, args, {}, (3, 2, 1))
            kernel.code.fill(command, 1 << 41)
            addresses = [b.allocation.handle.address + b.offset for b in command.bindings]
            faults = bool(kernel.manifest.sites)
            assert kernel.code._buffer.raw == gpu_bytes(
                kernel.params,
                faults,
                addresses,
                command.scalars,
                [a.count for a in args if isinstance(a, runtime.Buffer)],
                1 << 41,
                command.fault_base,
                (3, 2, 1),
            )


def longer(manifest: Manifest) -> Manifest:
    return replace(manifest, params=(*manifest.params, replace(manifest.params[-1], name="more")))


def shorter(manifest: Manifest) -> Manifest:
    return replace(manifest, params=manifest.params[:-1])


def turned(manifest: Manifest) -> Manifest:
    x, *rest = manifest.params
    return replace(manifest, params=(replace(x, kind="scalar", dtype="i64"), *rest))


def faultless(manifest: Manifest) -> Manifest:
    return replace(manifest, sites=("a site that the code has not",))


@pytest.mark.parametrize("lie", [longer, shorter, turned, faultless])
@pytest.mark.parametrize("target", ["ptx-sm_80", "cubin-sm_90"])
def test_a_manifest_that_lies_about_parameters_is_a_corrupt_artifact(
    device: runtime.Device,
    make_bundle: Callable[..., runtime.Bundle],
    tmp_path: Path,
    lie: Callable[[Manifest], Manifest],
    target: str,
) -> None:
    honest = make_bundle(target)
    artifact = honest.artifacts("saxpy", "s")[0]
    path = str(artifact.file.relative_to(tmp_path))
    write_bundle(tmp_path, [Entry(replace(lie(artifact.manifest), grid=None), path)])
    with pytest.raises(runtime.ArtifactCorrupt, match=r"other parameters.*\(0, 8\), \(8, "):
        device.load(runtime.open_bundle(tmp_path), "saxpy")
    device.load(honest, "saxpy")


def test_a_driver_that_does_not_tell_parameters_is_believed(
    fake: FakeDriver, bundle: runtime.Bundle
) -> None:
    fake.set(driver=12030)
    with runtime.open_device("cuda") as device:
        device.load(bundle, "saxpy")
