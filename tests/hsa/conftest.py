"""HSA devices over the test double of the runtime, and a bundle for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import double_samples
from double_samples import Manifests
from fake_cuda import build_kernels
from fake_hsa import FakeRuntime, build, made_for
from gristmill import runtime
from gristmill.store.bundle import Entry, write_bundle

for folder in ("hsaco", "spirv"):  # `hsaco_tools` and `kernel_text`
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

pytest.register_assert_rewrite("double_contract")


@pytest.fixture
def spec() -> str:
    return "hsa"


@pytest.fixture(scope="session")
def manifests() -> Manifests:
    return double_samples.manifests()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the double and the host's kernels are built."""
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session")
def loaded(built: Path) -> FakeRuntime:
    return FakeRuntime(build(built))


@pytest.fixture(scope="session")
def host_kernels(built: Path) -> Path:
    return build_kernels(built)


@pytest.fixture
def fake(
    require: Callable[..., None], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeRuntime]:
    """The double, fresh; used wrongly, the test fails."""
    require("gcc")
    double: FakeRuntime = request.getfixturevalue("loaded")
    double.reset()
    double.kernels(request.getfixturevalue("host_kernels"))
    monkeypatch.setenv("GRISTMILL_HSA_LIBRARY", double.path)
    yield double
    misuse = double.misuse
    double.reset()
    assert not misuse


@pytest.fixture
def make_bundle(
    fake: FakeRuntime, tmp_path: Path, manifests: Manifests
) -> Callable[..., runtime.Bundle]:
    """`make_bundle("gfx1100", ...)`: all samples for these target ids, best declared first."""

    def make(*targets: str) -> runtime.Bundle:
        entries = []
        for name, (manifest, sites) in manifests.items():
            for target in targets:
                blob, made = made_for(manifest, target)
                path = f"{target.replace(':', '_')}/{name}.hsaco"
                (tmp_path / path).parent.mkdir(exist_ok=True)
                (tmp_path / path).write_bytes(blob)
                entries.append(Entry(made, path, sites))
        write_bundle(tmp_path, entries)
        return runtime.open_bundle(tmp_path)

    return make


@pytest.fixture
def bundle(make_bundle: Callable[..., runtime.Bundle]) -> runtime.Bundle:
    return make_bundle("gfx1100")


@pytest.fixture
def device(fake: FakeRuntime) -> Iterator[runtime.Device]:
    """A device over the double; closed, it must have left nothing behind."""
    opened = runtime.open_device("hsa", timeout=20)
    yield opened
    opened.close()
    if not opened._dead:
        assert not fake.live()
        assert fake.users == 0
