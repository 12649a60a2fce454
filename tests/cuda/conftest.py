"""CUDA devices over the test double of the driver, and a bundle for them."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import double_samples
from double_samples import Manifests
from fake_cuda import FakeDriver, build, build_kernels, ptx, ptx_type, serve
from gristmill import runtime
from gristmill.ir.core import Kernel
from gristmill.ir.text import print_kernel
from gristmill.runtime.launch import LoadedKernel
from gristmill.store.bundle import Entry, write_bundle
from gristmill.store.manifest import Manifest
from launch_ways import Ways

for folder in ("ptx", "spirv"):  # `ptx_tools` and `kernel_text`
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

pytest.register_assert_rewrite("double_contract")


@pytest.fixture
def spec() -> str:
    return "cuda"


@pytest.fixture(scope="session")
def traced() -> dict[str, Kernel]:
    return double_samples.traced()


@pytest.fixture(scope="session")
def texts(traced: dict[str, Kernel]) -> dict[str, str]:
    """The kernels as text, which is what is compiled."""
    return {name: print_kernel(kernel) for name, kernel in traced.items()}


@pytest.fixture(scope="session")
def manifests() -> Manifests:
    return double_samples.manifests()


def made_for(manifest: Manifest, target: str, isa: str = "7.0") -> tuple[bytes, Manifest]:
    """A module of the double for a target, and its manifest."""
    scalars = [ptx_type(p.dtype) for p in manifest.params if p.kind == "scalar"]
    memory = ["u64"] * (len(manifest.params) - len(scalars))
    faults = ["u64", "u32"] if manifest.sites else []
    kinds = [*memory, *scalars, *memory, *faults, "u32", "u32", "u32"]
    backend, _, arch = target.partition("-")
    blob = ptx(manifest.entry, kinds, arch, isa)
    if backend == "cubin":
        blob = b"\x7fELF" + arch.encode() + b";" + blob
    return blob, replace(
        manifest,
        target=target,
        sha256=hashlib.sha256(blob).hexdigest(),
        size=len(blob),
        facts={"ptx_isa": isa} if backend == "ptx" else {"assembler": "nvjitlink 13.0"},
    )


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where the double is built, and where it looks for the code of modules."""
    built, code = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("code")
    os.environ["FAKE_CUDA_CODE"] = str(code)
    return built, code


@pytest.fixture(scope="session")
def library(folders: tuple[Path, Path]) -> Path:
    return build(folders[0])


@pytest.fixture(scope="session")
def kernels(folders: tuple[Path, Path]) -> Path:
    return build_kernels(folders[0])


@pytest.fixture(scope="session")
def loaded(library: Path) -> FakeDriver:
    return FakeDriver(library)


@pytest.fixture
def fake(require: Callable[..., None], request: pytest.FixtureRequest) -> Iterator[FakeDriver]:
    """The double, fresh; used wrongly or left with anything alive, the test fails."""
    require("gcc")
    if importlib.util.find_spec("cuda") is None:
        require("cuda-bindings", "not installed")
    driver: FakeDriver = request.getfixturevalue("loaded")
    driver.reset()
    yield driver
    assert not driver.misuse
    assert driver.depth <= 1  # a thread may keep the first device's context


@pytest.fixture
def make_bundle(
    fake: FakeDriver,
    tmp_path: Path,
    manifests: Manifests,
    kernels: Path,
    folders: tuple[Path, Path],
) -> Callable[..., runtime.Bundle]:
    """`make_bundle("ptx-sm_80", ...)`: all samples for these targets, best declared first."""

    def make(*targets: str, isa: str = "7.0") -> runtime.Bundle:
        entries = []
        for name, (manifest, sites) in manifests.items():
            for target in targets:
                blob, made = made_for(manifest, target, isa)
                file = tmp_path / target / f"{name}.bin"
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(blob)
                serve(blob, kernels, folders[1])
                entries.append(Entry(made, f"{target}/{name}.bin", sites))
        write_bundle(tmp_path, entries)
        return runtime.open_bundle(tmp_path)

    return make


@pytest.fixture
def bundle(make_bundle: Callable[..., runtime.Bundle]) -> runtime.Bundle:
    return make_bundle("ptx-sm_80")


@pytest.fixture
def device(fake: FakeDriver) -> Iterator[runtime.Device]:
    """A device over the double; closed, it must have left nothing behind."""
    opened = runtime.open_device("cuda", timeout=20)
    yield opened
    opened.close()
    if not opened._dead:
        assert not fake.live()
        assert fake.users() == 0


@pytest.fixture
def ways(device: Any, monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(device, monkeypatch)


@pytest.fixture
def saxpy(ways: Ways, bundle: runtime.Bundle) -> LoadedKernel:
    return ways.device.load(bundle, "saxpy")  # type: ignore[no-any-return]
