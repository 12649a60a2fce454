"""What a registry that asks for a login is told, and what not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gristmill.store.distribution import login
from gristmill.store.distribution.errors import RegistryRefused, RegistryUnreachable
from gristmill.store.distribution.oci import push
from gristmill.store.distribution.reference import Reference
from gristmill.store.distribution.registry import Registry
from registries import Fake

from .conftest import Shop


@pytest.mark.parametrize(
    "challenge",
    [
        "",
        "Bearer",
        'Bearer realm=""',
        'Bearer realm="http://127.0.0.1:1/token"',
        'Bearer realm="nonsense"',
        "Negotiate",
        'Basic realm="x"',
    ],
)
def test_a_login_that_leads_nowhere_is_told(
    shop: Shop, fake: Fake, tmp_path: Path, challenge: str
) -> None:
    def ask(handler: Any) -> bool:
        handler.answer(401, **({"Www_Authenticate": challenge} if challenge else {}))
        return True

    fake.misbehave = ask
    known = {"GRISTMILL_OCI_USER": "u", "GRISTMILL_OCI_PASSWORD": "hunter2"}
    reference = Reference.parse(f"{fake.host}/kernels:v1")
    registry = Registry(reference, timeout=5, attempts=1, environment=known)
    with pytest.raises((RegistryRefused, RegistryUnreachable)) as caught:
        push(registry, shop.packs())
    assert "hunter2" not in str(caught.value)


def test_a_token_for_reading_is_exchanged_for_one_for_writing(shop: Shop, fake: Fake) -> None:
    bought = []

    def guard(handler: Any) -> bool:
        if handler.path.startswith("/token"):
            scope = "write" if "write" in handler.path else "read"
            bought.append(scope)
            handler.answer(200, b'{"token": "%s"}' % scope.encode())
            return True
        need = "read" if handler.command in ("GET", "HEAD") else "write"
        if handler.headers.get("Authorization") in (f"Bearer {need}", "Bearer write"):
            return False
        realm = f'Bearer realm="http://{fake.host}/token",service="s",scope="{need}"'
        handler.answer(401, Www_Authenticate=realm)
        return True

    fake.misbehave = guard
    known = {"GRISTMILL_OCI_USER": "u", "GRISTMILL_OCI_PASSWORD": "p"}
    reference = Reference.parse(f"{fake.host}/kernels:v1")
    push(Registry(reference, attempts=1, environment=known), shop.packs())
    assert bought == ["read", "write"]
    assert "v1" in fake.content


@pytest.mark.parametrize("kind", ["Bearer", "Basic"])
def test_a_login_is_not_told_to_where_the_registry_sends(fake: Fake, kind: str) -> None:
    """A store of blobs that a registry redirects to may belong to somebody else."""
    told: list[str | None] = []
    with Fake() as other:

        def steal(handler: Any) -> bool:
            told.append(handler.headers.get("Authorization"))
            if handler.path.startswith("/token"):
                handler.answer(200, b'{"token": "t"}')
            else:
                realm = f'realm="http://{other.host}/token",service="s",scope="x"'
                handler.answer(401, Www_Authenticate=f"{kind} {realm}")
            return True

        def send(handler: Any) -> bool:
            handler.answer(307, Location=f"http://{other.host}{handler.path}")
            return True

        other.misbehave, fake.misbehave = steal, send
        known = {"GRISTMILL_OCI_USER": "u", "GRISTMILL_OCI_PASSWORD": "hunter2"}
        reference = Reference.parse(f"{fake.host}/kernels:v1")
        registry = Registry(reference, timeout=5, attempts=1, environment=known)
        with pytest.raises(RegistryRefused, match=f"a login for {other.host}"):
            registry.manifest("application/json")
    assert told == [None]


@pytest.mark.parametrize(
    ("realm", "plain", "fine"),
    [
        ("https://auth.example.com/token", False, True),
        ("http://auth.example.com/token", False, False),
        ("HTTP://auth.example.com/token", False, False),
        ("http://127.0.0.1:5000/token", True, True),
        ("", True, False),
    ],
)
def test_a_password_is_told_in_the_clear_only_where_the_registry_is(
    realm: str, plain: bool, fine: bool
) -> None:
    assert login._trusted(f'Bearer realm="{realm}",service="s"', plain) is fine
