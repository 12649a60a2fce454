"""What is asked of a registry, how often and how long, and where an upload may go."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from gristmill.store.distribution import registry
from gristmill.store.distribution.errors import (
    ArtifactInvalid,
    ContentMismatch,
    RegistryRefused,
    RegistryUnreachable,
)
from gristmill.store.distribution.oci import push
from registries import Fake

from .conftest import Shop
from .test_bad_registry import drip, fail, is_pack


def test_a_refusal_for_good_is_not_asked_for_again(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    fake.calls.clear()
    fake.misbehave = lambda handler: is_pack(handler) and handler.answer(404) is None
    with pytest.raises(RegistryRefused, match="no such name, tag or digest"):
        shop.pull(fake.host, attempts=3)
    assert fake.count("GET", fake.manifest()["layers"][0]["digest"]) == 1


def test_each_attempt_waits_longer_than_the_one_before(
    shop: Shop, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.push(fake.host)
    waits: list[float] = []
    monkeypatch.setattr(registry, "time", SimpleNamespace(**{**vars(time), "sleep": waits.append}))
    fake.misbehave = fail
    with pytest.raises(RegistryRefused):
        shop.pull(fake.host, attempts=4, pause=1.0)
    assert waits == [1.0, 2.0, 4.0]


def test_a_pack_that_changes_while_it_is_pushed_is_told(shop: Shop, fake: Fake) -> None:
    packs = shop.packs()

    def change(handler: Any) -> bool:
        if handler.command == "HEAD":
            for pack in packs:
                pack.path.write_bytes(b"another")
        return False

    fake.misbehave = change
    with pytest.raises(ArtifactInvalid, match="changed while it was pushed"):
        push(shop.registry(fake.host), packs)
    assert "v1" not in fake.content


def test_an_upload_is_not_sent_elsewhere(shop: Shop, fake: Fake) -> None:
    def elsewhere(handler: Any) -> bool:
        if handler.command == "POST":
            handler.answer(202, Location="http://127.0.0.2:1/steal?x=1")
        return bool(handler.command == "POST")

    fake.misbehave = elsewhere
    with pytest.raises(RegistryRefused, match=r"sends an upload elsewhere.*127\.0\.0\.2"):
        shop.push(fake.host)


def test_an_upload_is_not_sent_another_way(shop: Shop, fake: Fake) -> None:
    """Such as in the clear, where the registry is spoken to with TLS."""

    def otherwise(handler: Any) -> bool:
        if handler.command == "POST":
            handler.answer(202, Location=f"https://{fake.host}/v2/kernels/blobs/uploads/1")
        return bool(handler.command == "POST")

    fake.misbehave = otherwise
    with pytest.raises(RegistryRefused, match="sends an upload elsewhere"):
        shop.push(fake.host)


def test_what_a_registry_has_is_not_sent_again(shop: Shop, fake: Fake) -> None:
    packs = shop.packs()
    push(shop.registry(fake.host), packs)
    fake.calls.clear()
    push(shop.registry(fake.host), packs)
    assert fake.count("POST") == fake.count("PUT", "/blobs/") == 0
    assert fake.count("PUT", "/manifests/") == 1


def test_a_registry_that_takes_another_manifest_is_told(shop: Shop, fake: Fake) -> None:
    def other(handler: Any) -> bool:
        if handler.command == "PUT" and "/manifests/" in handler.path:
            handler.answer(201, Docker_Content_Digest="sha256:" + "0" * 64)
            return True
        return False

    fake.misbehave = other
    with pytest.raises(ContentMismatch, match="took another manifest"):
        shop.push(fake.host)


def test_a_drip_ends_by_what_came_of_it_not_by_what_was_announced(shop: Shop, fake: Fake) -> None:
    """A gigabyte at the slowest rate that is waited for would be a day."""
    shop.push(fake.host)
    manifest = fake.manifest()
    manifest["layers"][0]["size"] = 1 << 30
    fake.put_manifest(manifest)
    fake.misbehave = drip
    begin = time.monotonic()
    with pytest.raises(RegistryUnreachable, match=r"not done after \d s, in which \d+ bytes came"):
        shop.pull(fake.host, timeout=0.5)
    assert time.monotonic() - begin < 10
    assert shop.there() == []


@pytest.mark.parametrize("place", ["http://[::1", "file:///etc/passwd", "http://", "\x00", "//"])
def test_a_registry_that_sends_to_no_address_is_told(shop: Shop, fake: Fake, place: str) -> None:
    def send(handler: Any) -> bool:
        handler.answer(302, Location=place)
        return True

    fake.misbehave = send
    with pytest.raises((RegistryUnreachable, RegistryRefused)):
        shop.pull(fake.host)
