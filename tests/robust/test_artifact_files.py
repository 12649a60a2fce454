"""Whatever a folder of artifacts holds, opening, choosing and loading give a typed error at most.

The digest of a bundle keeps damage out; here it is computed anew, as whoever writes such a file on
purpose would do.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.backends.pool import Pool
from gristmill.backends.trace import trace
from gristmill.ir.targets import FEATURES, Capabilities, Limits
from gristmill.runtime.bundle import canonical
from gristmill.store.manifest import Manifest
from gristmill.store.messagepack import MessagePackError, unpack
from gristmill.store.schema import ManifestError
from robust.corpus import subjects
from robust.text_changes import changed, damaged

TARGETS = (
    "interp-kir",
    "cpu-x86-64-v3",
    "spirv-vulkan1.1",
    "wgsl-webgpu",
    "ptx-sm_80",
    "hsaco-gfx1100",
)
LIMITS = Limits(1024, (1024, 1024, 64), (65535,) * 3, 1 << 16, 1 << 30, 1 << 30, 64, 65535)
DEVICES = [
    Capabilities(name, name, "1.0", targets, LIMITS, frozenset(FEATURES), (8, 32), facts=facts)
    for name, targets, facts in (
        ("interp", ("interp-kir",), {}),
        ("cpu", ("cpu-x86-64-v3",), {}),
        ("vulkan", ("spirv-vulkan1.1",), {}),
        ("cuda", ("ptx-sm_80",), {"driver_version": 12040, "compute_capability": "8.0"}),
        ("hsa", ("hsaco-gfx1100",), {}),
    )
]


@functools.cache
def bundle() -> tuple[tuple[dict[str, Any], ...], tuple[bytes, ...]]:
    """Entries and artifacts of two kernels for every kind of target."""
    entries, blobs = [], []
    with Pool(1) as pool:
        for name in ("saxpy", "reduce_rows"):
            subject = next(
                s for s in subjects() if s.kernel == name and "BLOCK" not in s.constexprs
            )
            given = (subject.sources, subject.module, name, "f32", subject.constexprs)
            text = trace(*given)[0].decode()
            for target in TARGETS:
                step = "gristmill.backends.steps:compile_step"
                made = pool.run(step, text, target, {"checks": target == "cpu-x86-64-v3"}, "key")
                manifest = json.loads(made["manifest"])
                sites = [{"file": "a.py", "line": 1, "column": 1} for _ in manifest["sites"]]
                entries.append({"manifest": manifest, "path": f"{len(blobs)}.bin", "sites": sites})
                blobs.append(made["artifact"])
    return tuple(entries), tuple(blobs)


def write(folder: Path, entries: Any, text: str | None = None) -> None:
    digest = hashlib.sha256(canonical(entries)).hexdigest()
    whole = {"digest": digest, "entries": entries, "schema": 1}
    text = text or json.dumps(whole, sort_keys=True, separators=(",", ":"))
    (folder / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))


def use(folder: Path) -> None:
    """All that a runtime does with a folder before anything runs."""
    opened = runtime.open_bundle(folder)
    list(opened)
    for kernel, names in opened.kernels().items():
        for name in names:
            for device in DEVICES:
                opened.select(kernel, name, device)
    for artifact in opened:
        artifact.read()
    for spec in ("interp", "cpu", "null"):
        with runtime.open_device(spec) as device:
            for kernel, names in opened.kernels().items():
                load(device, opened, kernel, names[0])


def load(device: runtime.Device, opened: runtime.Bundle, kernel: str, name: str) -> None:
    """Load a kernel and ask for its grid, of arguments that it would take."""
    loaded = device.load(opened, kernel, name)
    manifest = loaded.manifest
    assert isinstance(manifest, Manifest)
    str(loaded)


def refused_by_type(folder: Path, told: list[str]) -> None:
    try:
        use(folder)
    except runtime.GristmillError as error:
        told.append(str(error))


def hunt(rng: np.random.Generator, folder: Path, count: int) -> None:
    entries, blobs = bundle()
    for n, blob in enumerate(blobs):
        (folder / f"{n}.bin").write_bytes(blob)
    write(folder, list(entries))
    use(folder)
    text = (folder / "bundle.json").read_text()
    told: list[str] = []
    for _ in range(count):
        seed = int(rng.integers(1 << 62))
        own = random.Random(seed)
        few = own.sample(entries, 2)
        try:
            if own.random() < 0.3:
                write(folder, None, changed(text, own))
            else:
                write(folder, damaged(few, own))
            refused_by_type(folder, told)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert count // 3 < len(told) < count
    assert max(map(len, told)) < 2000


def test_damaged_bundles_are_refused_by_type(tmp_path: Path) -> None:
    hunt(np.random.default_rng(4), tmp_path, 250)


@pytest.mark.slow
def test_many_damaged_bundles_are_refused_by_type(rng: np.random.Generator, tmp_path: Path) -> None:
    hunt(rng, tmp_path, 20_000)


def test_damaged_manifests_are_refused_by_type() -> None:
    rng = np.random.default_rng(5)
    entries, _ = bundle()
    told: list[str] = []
    for _ in range(1500):
        seed = int(rng.integers(1 << 62))
        own = random.Random(seed)
        manifest = own.choice(entries)["manifest"]
        text = json.dumps(damaged(manifest, own))
        if own.random() < 0.3:
            text = changed(text, own)
        try:
            Manifest.from_json(text.encode("utf-8", "surrogatepass")).to_json()
        except ManifestError as error:
            told.append(str(error))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    assert len(told) > 500
    assert max(map(len, told)) < 2000


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"a":' * 200_000, "9" * 100_000, "NaN", "-Infinity", '"\\ud800"', "\ufeff{}",
     '{"schema": 1, "schema": 1}', "null", "[]", '{"schema": ' + "1" * 5000 + "}", "\xff", ""],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_monstrous_json_is_refused_by_type(text: str, tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(runtime.BundleError):
        runtime.open_bundle(tmp_path)
    with pytest.raises(ManifestError):
        Manifest.from_json(text.encode("utf-8", "surrogatepass"))


def test_random_messagepack_is_a_value_or_a_typed_error() -> None:
    rng = np.random.default_rng(6)
    for _ in range(5000):
        data = bytearray(rng.integers(0, 256, int(rng.integers(1, 40)), np.uint8).tobytes())
        data[0] = int(rng.choice([0x81, 0x92, 0xDC, 0xDE, 0xDF, 0xA5, 0xC4, data[0]]))
        with contextlib.suppress(MessagePackError):
            unpack(bytes(data))
