"""How arguments and results travel: with the message where they are small, else through the cache
that both ends share, by digest, so that no scheduler has to hold them."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
from collections.abc import Mapping
from typing import Any

from ...store.interface import CacheError, Outputs, Remote
from ...store.key import Action, encode
from ...store.opening import open_remote
from .identity import result_action

INLINE = 64 << 10  # bytes that go with the message
Parcel = tuple[str, bytes | str]  # ("here", bytes) or ("cache", key)


class ParcelError(Exception):
    """A parcel whose content is not at hand: where it was to be."""


@functools.lru_cache(maxsize=8)
def shared_cache(url: str) -> Remote | None:
    """The cache at a URL, where this machine's GRISTMILL_CACHE names the same one."""
    return open_remote(url) if url and os.environ.get("GRISTMILL_CACHE") == url else None


def packed(value: Any, cache: Remote | None) -> Parcel:
    """Anything that pickles, such as arguments. cache: one that may be written, if any."""
    data = pickle.dumps(value)
    if len(data) <= INLINE or cache is None:
        return "here", data
    action = _content(data)
    try:
        cache.put(action.key, {"data": data}, action.text)
    except CacheError:
        return "here", data
    return "cache", action.key


def unpacked(parcel: Parcel, cache: Remote | None) -> Any:
    """ParcelError where the cache has it not."""
    kind, what = parcel
    if kind == "here":
        assert isinstance(what, bytes)
        return pickle.loads(what)
    outputs = _fetched(str(what), cache)
    if _content(outputs.get("data", b"")).key != what:
        raise ParcelError(f"other content under {what}")
    return pickle.loads(outputs["data"])


def sent(key: str, outputs: Outputs, cache: Remote | None) -> tuple[str, Any]:
    """The outputs of an action, with the message or by reference."""
    if sum(map(len, outputs.values())) <= INLINE or cache is None:
        return "here", outputs
    action = result_action(key, _digests(outputs))
    try:
        cache.put(action.key, outputs, action.text)
    except CacheError:
        return "here", outputs
    return "cache", action.key


def received(key: str, parcel: Any, cache: Remote | None) -> Any:
    """The outputs of an action as a worker sent them; not judged yet. ParcelError."""
    kind, what = parcel
    if kind == "here":
        return what
    outputs = _fetched(str(what), cache)
    if result_action(key, _digests(outputs)).key != what:
        raise ParcelError(f"other content under {what}")
    return outputs


def _fetched(key: str, cache: Remote | None) -> Outputs:
    try:
        outputs = cache.get(key) if cache is not None else None
    except CacheError as error:
        raise ParcelError(str(error)) from None
    if outputs is None:
        raise ParcelError(f"the shared cache has no {key}")
    return outputs


def _digests(outputs: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in outputs.items()}


def _content(data: bytes) -> Action:
    digest = hashlib.sha256(data).hexdigest()
    return Action({"action": b"farm arguments", "content": encode(digest)})
