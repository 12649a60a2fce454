"""Logins of registries: by name and password, or by a token that those buy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .errors import RegistryRefused
from .reference import Reference

USER, PASSWORD = "GRISTMILL_OCI_USER", "GRISTMILL_OCI_PASSWORD"
LOGIN = f"log in with `docker login HOST`, or set {USER} and {PASSWORD}"
Headers = dict[str, str]


def login(session: Any, reference: Reference, plain: bool, environment: Mapping[str, str]) -> Any:
    """What answers a registry that asks who is there, as oras's client wants it.

    A name and its password are looked for once they are asked for: in the environment, then in the
    files of `docker login`.
    """
    import oras.auth

    tokens: Any = oras.auth.TokenAuth()
    tokens.session, tokens._tls_verify = session, True
    tokens.prefix = "http" if plain else "https"
    answer = _Login(tokens, tokens.authenticate_request, reference, plain, environment)
    tokens.authenticate_request = answer
    return tokens


class _Login:
    """Called with a refused request; gives the headers of another try. `buy` is oras's way, which
    keeps a token that was for less, and knows no plain password."""

    def __init__(
        self,
        tokens: Any,
        buy: Any,
        reference: Reference,
        plain: bool,
        environment: Mapping[str, str],
    ) -> None:
        self._tokens, self._buy, self._reference = tokens, buy, reference
        self._plain, self._environment, self._found = plain, environment, False

    def __call__(self, answer: Any, headers: Headers, refresh: bool = False) -> Any:
        challenge, status = answer.headers.get("Www-Authenticate", ""), answer.status_code
        if not challenge or refresh:
            raise self._refused(status)
        asks = urlsplit(answer.url).netloc
        if asks.lower() != self._reference.host.lower():  # where the registry sent this request
            raise self._refused(status, f"a login for {asks}")
        try:
            self._find()
            if challenge.lower().startswith("basic"):
                return self._basic(headers, status)
            if not _trusted(challenge, self._plain):
                raise self._refused(status, f"a login at {challenge!r}")
            self._tokens.token = None
            headers, changed = self._buy(answer, headers)
        except (ValueError, TypeError, AttributeError) as error:  # what oras makes of nonsense
            raise self._refused(status, str(error)) from error
        if not changed:
            raise self._refused(status)
        return headers, changed

    def _basic(self, headers: Headers, status: int) -> tuple[Headers, bool]:
        pair = getattr(self._tokens, "_basic_auth", "")
        if not pair:
            raise self._refused(status)
        return {**headers, "Authorization": f"Basic {pair}"}, True

    def _find(self) -> None:
        if self._found:
            return
        import oras.container

        self._found = True
        user, password = (self._environment.get(name, "") for name in (USER, PASSWORD))
        if user and password:
            self._tokens.set_basic_auth(user, password)
            return
        folder = self._environment.get("DOCKER_CONFIG", "")
        file = os.path.join(folder, "config.json")
        container = oras.container.Container(f"{self._reference.host}/{self._reference.name}")
        self._tokens.load_configs(container, [file] if folder and os.path.exists(file) else None)

    def _refused(self, status: int, got: str = "") -> RegistryRefused:
        denied = status == 403
        what = "the registry does not allow this" if denied else "the registry wants a login"
        return RegistryRefused(what, status, where=str(self._reference), got=got, do=LOGIN)


def _trusted(challenge: str, plain: bool) -> bool:
    """Whether the service that sells tokens may be told a password: not in the clear, where the
    registry itself is spoken to with TLS."""
    realm = re.search(r'realm="([^"]+)"', challenge, re.IGNORECASE)
    return realm is not None and (plain or not realm[1].lower().startswith("http:"))
