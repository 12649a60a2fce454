"""Opening the store that a build was told to use."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from .interface import Remote, Store, StoreError
from .layered import BUDGET, FLUSH, Bounds, LayeredStore
from .local import LocalStore, default_limit, default_root, folder

MODES = ("read", "readwrite", "off")
TIMEOUT = 10.0  # seconds of one request
_DAY = 86_400.0  # seconds


def open_store(
    url: str = "",
    mode: str = "readwrite",
    root: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    warn: Callable[[str], None] = lambda text: None,
) -> Store:
    """The local store at `root` (else where the environment says), before the cache at `url`.

    url: empty, or see `open_remote`. mode: of MODES. warn: told at most once, of a cache that is
    left. StoreError where the URL cannot be understood or a package for it is missing; a cache
    that does not answer is found out later, and costs a warning.
    """
    local = LocalStore(root or default_root(environment), default_limit(environment))
    url, mode = url.strip(), mode.strip()
    if mode not in MODES:
        raise StoreError(f"unknown cache mode {mode!r:.60}; expected {', '.join(MODES)}")
    if not url or mode == "off":
        return local
    bounds = Bounds(
        _seconds(environment, "GRISTMILL_CACHE_BUDGET", BUDGET),
        _seconds(environment, "GRISTMILL_CACHE_FLUSH", FLUSH),
    )
    remote = open_remote(url, environment)
    return LayeredStore(local, remote, url, mode == "readwrite", bounds, warn)


def open_remote(url: str, environment: Mapping[str, str] = os.environ) -> Remote:
    """The cache at a URL: a folder (a path), an object store (s3, gs, az, file), or a cache of the
    Remote Execution API (grpc, grpcs). StoreError, which does not show what may be a password."""
    from . import objects
    from .reapi import client, store

    timeout = _seconds(environment, "GRISTMILL_CACHE_TIMEOUT", TIMEOUT)
    scheme, colon, _ = url.partition("://")
    known = [*objects.SCHEMES, *client.SCHEMES]
    if not colon:
        if found := re.match(rf"({'|'.join(known)}|https?)(:|//)", url, re.IGNORECASE):
            raise StoreError(f"{_shown(url)} is no cache; expected {found[1].lower()}://...")
        return LocalStore(folder(url, "the cache"), default_limit(environment))
    if (shown := _shown(url)) != url:
        raise StoreError(
            f"{shown} was given with a login or parameters, which do not belong into a URL: it is "
            "shown and written down; set the variables of the environment for them (docs/STORE.md)"
        )
    scheme = scheme.lower()
    if scheme in objects.SCHEMES:
        return objects.ObjectStore(url, timeout)
    if scheme in client.SCHEMES:
        return store.ReapiStore(client.Client(url, timeout, environment))
    expected = f"expected a folder or {', '.join(known)}"
    raise StoreError(f"{url}: unknown kind of cache {scheme!r}; {expected}")


def _shown(url: str) -> str:
    """A URL without what it may say in secret: the login before its host, parameters behind `?` or
    `#`. The container before the account of `abfs` is none."""
    scheme, colon, rest = url.partition("://")
    if not colon:
        return re.sub(r"^(\w+:?/*)[^@]*@", r"\1", url)
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    login, at, behind = rest.rpartition("@")
    if at and not (scheme.lower().startswith("abfs") and re.fullmatch(r"[\w-]+", login)):
        rest = behind
    return f"{scheme}://{rest}"


def _seconds(environment: Mapping[str, str], name: str, usual: float) -> float:
    stated = environment.get(name, "").strip()
    try:
        seconds = float(stated or usual)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _DAY:
        raise StoreError(
            f"{name}={stated:.60} is no time; expected seconds, over 0 and up to {_DAY:.0f}"
        )
    return seconds
