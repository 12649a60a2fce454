"""Signed packs, the keys that signed them, and a registry that misbehaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gristmill.store.distribution.facts import PackFacts, facts
from gristmill.store.distribution.oci import Pulled, pull, push
from gristmill.store.distribution.reference import Reference
from gristmill.store.distribution.registry import Registry
from gristmill.store.pack.writing import write_pack
from gristmill.store.trust.keys import Key, new_key
from gristmill.store.trust.provenance import Origin, statement
from gristmill.store.trust.signing import sign_pack, verify_pack
from registries import Fake
from toy_packs import item

ORIGIN = Origin("urn:test", {}, (), "urn:test", {})


@dataclass
class Shop:
    """Packs of two targets in `out`, signed by `key`, and a place `here` to pull them to."""

    out: Path
    here: Path
    key: Key

    def pack(self, target: str, kernel: str = "shift") -> PackFacts:
        """A signed pack of one kernel."""
        path = self.out / f"gristmill-{target}.pack"
        write_pack(path, [item(kernel, target=target)])
        sign_pack(path, statement(path, ORIGIN), self.key)
        return facts(path)

    def packs(self) -> list[PackFacts]:
        return [self.pack("ptx-sm_80"), self.pack("spirv-vulkan1.1")]

    def verify(self, path: Path) -> object:
        return verify_pack(path, [self.key])

    def there(self) -> list[str]:
        """The files that were pulled, and whatever else lies there."""
        return sorted(p.name for p in self.here.iterdir()) if self.here.exists() else []

    def registry(self, host: str, name: str = "kernels:v1", **settings: float) -> Registry:
        settings = {"timeout": 10.0, "attempts": 2, "pause": 0.01, **settings}
        return Registry(Reference.parse(f"{host}/{name}"), environment={}, **settings)

    def push(self, host: str, name: str = "kernels:v1") -> Reference:
        return push(self.registry(host, name), self.packs())

    def pull(self, host: str, name: str = "kernels:v1", *targets: str, **settings: float) -> Pulled:
        return pull(self.registry(host, name, **settings), self.here, targets, self.verify)


@pytest.fixture
def shop(tmp_path: Path, require: Callable[..., None]) -> Shop:
    require("cryptography")
    (tmp_path / "out").mkdir()
    return Shop(tmp_path / "out", tmp_path / "here", new_key("builder", 10))


@pytest.fixture
def fake(require: Callable[..., None]) -> Iterator[Fake]:
    require("oras")
    with Fake() as server:
        yield server
