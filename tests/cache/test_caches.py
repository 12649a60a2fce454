"""Every kind of cache, against real servers: what was put comes back, damage never does."""

from __future__ import annotations

import hashlib
import importlib
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from cache_doubles import key_of
from gristmill.store import entries
from gristmill.store.interface import CacheError, Remote, StoreError
from gristmill.store.objects import ObjectStore
from gristmill.store.opening import open_remote
from gristmill.store.reapi import messages as m
from gristmill.store.reapi.store import ReapiStore
from need import Need

SMALL = {"artifact": b"\x7fELF" * 500, "manifest": b"{}"}
LARGE = {"artifact": bytes(range(256)) * 40_000, "empty": b"", "manifest": b"{}"}  # 10 MB
TEXT = b"gristmill action 2\n..."


@dataclass
class Cache:
    """A cache of one kind, and how to open it."""

    open: Callable[[], Remote]


@pytest.fixture(params=["folder", "file", "s3", "reapi"])
def cache(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    require: Need,
) -> Cache:
    """A cache without entries."""
    if request.param == "folder":
        return Cache(lambda: open_remote(str(tmp_path / "cache")))
    if request.param == "reapi":
        require("grpc")
        require("bgd")
        url = request.getfixturevalue("reapi_server")  # shared: the keys of a test are its own
        return Cache(lambda: open_remote(url))
    require("obstore")
    if request.param == "file":
        return Cache(lambda: open_remote(f"file://{tmp_path}/cache"))
    require("moto_server")
    for name, value in request.getfixturevalue("s3").items():
        monkeypatch.setenv(name, value)
    url = f"s3://bucket/{uuid.uuid4()}"
    return Cache(lambda: open_remote(url))


def test_what_was_put_comes_back(cache: Cache, request: pytest.FixtureRequest) -> None:
    first, second = cache.open(), cache.open()
    keys = {name: key_of(f"{request.node.name} {name}") for name in ("small", "large", "none")}
    assert first.get(keys["small"]) is None
    first.put(keys["small"], SMALL)
    first.put(keys["large"], LARGE)
    first.put(keys["none"], {})
    for store in (first, second):
        assert store.get(keys["small"]) == SMALL
        assert store.get(keys["large"]) == LARGE
        assert store.get(keys["none"]) == {}
        found = store.get_many([*keys.values(), key_of("absent")])
        assert found == {keys["small"]: SMALL, keys["large"]: LARGE, keys["none"]: {}}
    assert (second.counts.hits, second.counts.misses, second.counts.mismatches) == (6, 1, 0)
    assert first.counts.written == 3


def test_the_text_of_an_action_is_kept(cache: Cache) -> None:
    store, key = cache.open(), hashlib.sha256(TEXT).hexdigest()
    store.put(key, SMALL, TEXT)
    assert cache.open().action(key) == TEXT
    assert cache.open().get(key) == SMALL
    assert store.action(key_of("absent")) is None


def test_publishers_of_one_key_do_not_disturb_each_other(
    cache: Cache, request: pytest.FixtureRequest
) -> None:
    stores = [cache.open() for _ in range(4)]
    keys = [key_of(f"{request.node.name} {n}") for n in range(20)]
    with ThreadPoolExecutor(16) as threads:
        work = [threads.submit(s.put, key, SMALL, b"") for key in keys for s in stores]
        for done in work:
            done.result()
    assert cache.open().get_many(keys) == dict.fromkeys(keys, SMALL)


@pytest.mark.parametrize("kind", ["file", "s3"])
@pytest.mark.parametrize("harm", ["flipped", "truncated", "empty", "grown", "swapped", "replayed"])
def test_a_damaged_object_is_a_miss_and_the_next_writer_replaces_it(
    kind: str,
    harm: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    require: Need,
) -> None:
    require("obstore")
    import obstore

    url = f"file://{tmp_path}/cache"
    if kind == "s3":
        require("moto_server")
        for name, value in request.getfixturevalue("s3").items():
            monkeypatch.setenv(name, value)
        url = f"s3://bucket/{uuid.uuid4()}"
    keys = {"small": key_of("small"), "large": key_of("large")}
    for name, outputs in (("small", SMALL), ("large", LARGE)):
        key = keys[name]
        paths = [f"ac/{key}"]
        if name == "large":
            paths += [f"cas/{hashlib.sha256(LARGE['artifact']).hexdigest()}"]
        for path in paths:
            store = ObjectStore(url)
            store.put(key, outputs)
            other = {"artifact": b"of another action"}
            store.put(key_of("other"), other)
            objects = store._objects
            good = bytes(obstore.get(objects, path).bytes())
            stranger = bytes(obstore.get(objects, f"ac/{key_of('other')}").bytes())
            bad = {
                "flipped": good[:100] + bytes([good[100] ^ 1]) + good[101:],
                "truncated": good[: len(good) // 2],
                "empty": b"",
                "grown": good + b"\0" * (2 << 20),
                "swapped": stranger,
                "replayed": entries.encode(key_of("other"), outputs, carry=True),
            }[harm]
            obstore.put(objects, path, bad)
            reader = ObjectStore(url)
            assert reader.get(key) is None, path
            assert reader.counts.mismatches == 1
            reader.put(key, outputs)  # the one who found it
            assert ObjectStore(url).get(key) == outputs
            obstore.put(objects, path, bad)
            ObjectStore(url).put(key, outputs)  # one who never read it
            assert ObjectStore(url).get(key) == outputs


def test_what_is_asked_of_the_reapi_is_what_the_definitions_say(require: Need) -> None:
    """Field numbers and types, held against the definitions that a server ships."""
    require("bgd")
    base = "buildgrid._protos"
    execution = importlib.import_module(
        f"{base}.build.bazel.remote.execution.v2.remote_execution_pb2"
    )
    stream = importlib.import_module(f"{base}.google.bytestream.bytestream_pb2")
    status = importlib.import_module(f"{base}.google.rpc.status_pb2")
    inner = {
        "BlobUpdate": execution.BatchUpdateBlobsRequest.Request,
        "BlobUpdated": execution.BatchUpdateBlobsResponse.Response,
        "BlobRead": execution.BatchReadBlobsResponse.Response,
        "UpdateCapabilities": execution.ActionCacheUpdateCapabilities,
    }
    integers = {5, 14}  # int32, and an enumeration
    for name in m.FIELDS:
        real = inner.get(name) or next(
            getattr(x, name) for x in (execution, stream, status) if hasattr(x, name)
        )
        for field in getattr(m.messages(), name).DESCRIPTOR.fields:
            theirs = real.DESCRIPTOR.fields_by_name[field.name]
            same = theirs.type == field.type or {theirs.type, field.type} == integers
            assert same, (name, field.name)
            assert theirs.number == field.number
            assert theirs.is_repeated == field.is_repeated


def test_a_url_that_means_nothing_is_told(tmp_path: Path, require: Need) -> None:
    require("grpc")
    require("obstore")
    wrong = {
        "ftp://host/x": "unknown kind of cache 'ftp'; expected a folder or s3, gs",
        "s3://": "cannot be opened as a cache",
        "grpc:///main": "is no cache; expected grpc://HOST:PORT/INSTANCE",
        "grpc://host:port/x": "Port could not be cast",
    }
    for url, message in wrong.items():
        with pytest.raises(StoreError, match=message):
            open_remote(url, {})
    with pytest.raises(StoreError, match="a token is not sent in the clear; use grpcs://"):
        open_remote("grpc://cache.example:80", {"GRISTMILL_CACHE_TOKEN": "secret"})
    with pytest.raises(StoreError, match="a certificate or its key"):
        open_remote("grpcs://h:1", {"GRISTMILL_CACHE_CA": str(tmp_path / "none.pem")})
    with pytest.raises(StoreError, match="GRISTMILL_CACHE_TIMEOUT=soon is no time"):
        open_remote("s3://b", {"GRISTMILL_CACHE_TIMEOUT": "soon"})


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, url in (("obstore", "s3://b"), ("grpc", "grpc://127.0.0.1:9")):
        for module in [found for found in sys.modules if found.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(StoreError, match=r"pip install 'gristmill\[cache\]'"):
            open_remote(url, {})


def test_an_instance_that_is_not_there_is_an_error(
    request: pytest.FixtureRequest, require: Need
) -> None:
    require("grpc")
    require("bgd")
    url: str = request.getfixturevalue("reapi_server")
    store = open_remote(url.replace("/main", "/other"))
    assert isinstance(store, ReapiStore)
    with pytest.raises(CacheError, match="other"):
        store.put(key_of("x"), SMALL)
