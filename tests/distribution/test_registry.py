"""Packs come back from a registry as they were pushed: Debian's docker-registry on loopback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gristmill.store.distribution.errors import (
    ArtifactInvalid,
    ExtraMissing,
    ReferenceInvalid,
    RegistryRefused,
    TargetMissing,
)
from gristmill.store.distribution.oci import pull, push
from gristmill.store.distribution.reference import Reference
from gristmill.store.distribution.registry import Registry
from registries import MAIN, docker_registry

from .conftest import Shop


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(autouse=True)
def _needed(require: Callable[..., None]) -> None:
    require("docker-registry")
    require("oras")


def test_packs_and_signatures_come_back_as_they_were_pushed(shop: Shop, host: str) -> None:
    pushed = shop.push(host)
    done = shop.pull(host)
    assert [path.name for path in done.packs] == [
        "gristmill-ptx-sm_80.pack",
        "gristmill-spirv-vulkan1.1.pack",
    ]
    assert shop.there() == sorted(path.name for path in shop.out.glob("*.pack*"))
    for name in shop.there():
        assert (shop.here / name).read_bytes() == (shop.out / name).read_bytes()
    assert done.reference == pushed


def test_equal_packs_have_one_digest_wherever_they_are_pushed(shop: Shop, host: str) -> None:
    packs = shop.packs()
    digests = {push(shop.registry(host, name), packs).digest for name in ("a:x", "b/c:y")}
    assert len(digests) == 1


def test_a_digest_names_what_was_pushed_after_the_tag_has_moved(shop: Shop, host: str) -> None:
    first = push(shop.registry(host, "moving:v1"), [shop.pack("ptx-sm_80", "first")])
    old = (shop.out / "gristmill-ptx-sm_80.pack").read_bytes()
    push(shop.registry(host, "moving:v1"), [shop.pack("ptx-sm_80", "second")])
    shop.pull(host, f"moving@{first.digest}")
    assert (shop.here / "gristmill-ptx-sm_80.pack").read_bytes() == old
    shop.pull(host, "moving:v1")
    assert (shop.here / "gristmill-ptx-sm_80.pack").read_bytes() != old


@pytest.mark.parametrize("asked", ["ptx", "ptx-sm_80"])
def test_a_pull_takes_the_targets_that_it_is_told(shop: Shop, host: str, asked: str) -> None:
    shop.push(host)
    shop.pull(host, "kernels:v1", asked)
    assert shop.there() == ["gristmill-ptx-sm_80.pack", "gristmill-ptx-sm_80.pack.sig"]
    with pytest.raises(TargetMissing, match=r"no pack for hsaco.*ptx-sm_80, spirv-vulkan1.1"):
        shop.pull(host, "kernels:v1", "hsaco")


def test_what_is_there_already_is_verified_and_not_fetched(shop: Shop, host: str) -> None:
    shop.push(host)
    assert shop.pull(host).present == 0
    (shop.here / "gristmill-ptx-sm_80.pack").write_bytes(b"damaged")
    assert shop.pull(host).present == 1
    assert shop.pull(host).present == 2


def test_what_was_never_pushed_is_told(shop: Shop, host: str) -> None:
    with pytest.raises(RegistryRefused, match=r"no such name, tag or digest.*404") as caught:
        shop.pull(host, "nothing:v1")
    assert caught.value.status == 404
    assert shop.there() == []


def test_nothing_is_pushed_to_a_digest(shop: Shop, host: str) -> None:
    with pytest.raises(ArtifactInvalid, match="a digest cannot be pushed to"):
        shop.push(host, f"kernels@sha256:{'0' * 64}")
    with pytest.raises(ArtifactInvalid, match="two packs of one target"):
        push(shop.registry(host), [shop.pack("ptx-sm_80")] * 2)
    with pytest.raises(ArtifactInvalid, match="1 to 1000 layers"):
        push(shop.registry(host), [])


def test_a_registry_that_asks_for_a_login(shop: Shop, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text(MAIN)
    with docker_registry(tmp_path / "registry", users) as host:
        login = {"GRISTMILL_OCI_USER": "main", "GRISTMILL_OCI_PASSWORD": "secret"}
        reference = Reference.parse(f"{host}/kernels:v1")
        push(Registry(reference, environment=login), shop.packs())
        pull(Registry(reference, environment=login), shop.here, [], shop.verify)
        for environment in ({}, {**login, "GRISTMILL_OCI_PASSWORD": "guess"}):
            with pytest.raises(RegistryRefused, match=r"wants a login.*GRISTMILL_OCI_USER") as no:
                push(Registry(reference, environment=environment), shop.packs())
            assert no.value.status == 401
            assert "guess" not in str(no.value)


@pytest.mark.parametrize(
    "text",
    [
        "kernels:v1",
        "user/kernels:v1",
        "host:5000/Kernels",
        "host:5000/kernels:v 1",
        "host:5000/../kernels",
        "host:5000/kernels@sha256:12",
        "http://host:5000/kernels",
        "host:5000/kernels:v1\n",
        "",
        "h.x/" + "a" * 600,
    ],
)
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(ReferenceInvalid, match="expected HOST"):
        Reference.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "user:hunter2@host.com/a:v1",
        "https://user:hunter2@host.com/a",
        "user:hunter2/x@host.com/a",
        "user:hun@ter2@host.com/a@sha256:" + "0" * 64,
    ],
)
def test_a_password_in_a_reference_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ReferenceInvalid) as caught:
        Reference.parse(text)
    assert "hun" not in str(caught.value)
    assert "ter2" not in str(caught.value)
    assert "host.com/a" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:5000/a/b:v1", True),
        ("localhost/a", True),
        ("[::1]:5000/a", True),
        ("registry.example.com/a-b/c_d:1.0@sha256:" + "a" * 64, False),
        ("127.0.0.1.example.com/a", False),
    ],
)
def test_a_reference_is_read_and_written(text: str, loopback: bool) -> None:
    reference = Reference.parse(text)
    assert str(reference) == text
    assert reference.loopback == loopback


def test_without_oras_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oras.provider", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'gristmill\[oci\]'"):
        Registry(Reference.parse("127.0.0.1:1/kernels:v1"), environment={})
