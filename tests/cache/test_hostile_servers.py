"""Servers that announce, answer and list what no server does: bounded in time, memory and words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cache_doubles
from cache_doubles import BadObjects, BadReapi, key_of
from gristmill.store import entries
from gristmill.store.interface import CacheError
from gristmill.store.layered import LayeredStore
from gristmill.store.opening import open_remote, open_store
from gristmill.store.reapi import store as reapi_store

OUTPUTS = {"artifact": b"\x7fELF" * 500, "empty": b"", "manifest": b"{}"}
QUICK = {"GRISTMILL_CACHE_TIMEOUT": "0.5", "GRISTMILL_CACHE_FLUSH": "0.3"}
PATIENT = {"GRISTMILL_CACHE_TIMEOUT": "30"}  # where nothing hangs: a busy machine is slow


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "zz", "", "A" * 64])
def test_a_name_that_is_no_digest_is_not_asked_for(bad: Any, name: str) -> None:
    store = open_remote(bad.url, PATIENT)
    assert store.get(name) is None
    assert store.action(name) is None
    assert not bad.requests


def test_what_is_nowhere_takes_one_request(reapi: BadReapi) -> None:
    assert open_remote(reapi.url, PATIENT).get(key_of("a")) is None
    assert reapi.requests == ["result"]


@pytest.mark.parametrize("most", [-1, -(1 << 62), 1, 1 << 62])
def test_a_batch_of_any_size_is_survived(reapi: BadReapi, most: int) -> None:
    cache = reapi.m.CacheCapabilities(digest_functions=[1], max_batch_total_size_bytes=most)
    reapi.capabilities = lambda request: reapi.m.ServerCapabilities(  # type: ignore[method-assign]
        cache_capabilities=cache
    )
    store = open_remote(reapi.url, PATIENT)
    store.put(key_of("a"), OUTPUTS)
    assert store.get(key_of("a")) == OUTPUTS


def listing(server: BadReapi, *sizes: int) -> None:
    """Have the only result list files of such sizes too."""
    (name,) = server.results
    files = [
        server.m.OutputFile(path=f"f{n}", digest=server.m.Digest(hash=key_of(n), size_bytes=size))
        for n, size in enumerate(sizes)
    ]
    files += server.results[name].output_files
    server.results[name] = server.m.ActionResult(output_files=files)


def test_a_result_of_many_gigabytes_is_not_fetched(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, PATIENT)
    store.put(key_of("a"), OUTPUTS)
    listing(reapi, *[entries.LARGEST] * 8)
    assert store.get(key_of("a")) is None
    assert "stream_in" not in reapi.requests


@pytest.mark.parametrize("drip", [True, False], ids=["drip", "silence"])
def test_a_stream_ends_by_what_came_of_it_not_by_what_was_announced(
    reapi: BadReapi, drip: bool
) -> None:
    def stream(request: Any) -> Iterator[Any]:
        yield reapi.m.ReadResponse(data=b"begin")
        while not reapi.over.wait(0.05):
            if drip:
                yield reapi.m.ReadResponse(data=b".")

    reapi.stream_in = stream  # type: ignore[method-assign]
    store = open_remote(reapi.url, QUICK)
    store.put(key_of("a"), OUTPUTS)
    listing(reapi, entries.LARGEST)
    begin = time.monotonic()
    with pytest.raises(CacheError, match=r"Read: too slow: \d+ of 268435456 bytes came"):
        store.get(key_of("a"))
    assert time.monotonic() - begin < 10


def test_what_many_results_hold_fits_into_memory(
    reapi: BadReapi, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_remote(reapi.url, PATIENT)
    for n in range(10):
        store.put(key_of(n), {"artifact": b"%d" % n * 100_000})
    monkeypatch.setattr(reapi_store, "_TOGETHER", 500_000)
    assert set(store.get_many(map(key_of, range(10)))) == {key_of(n) for n in range(4)}
    assert store.get(key_of(9)) == {"artifact": b"9" * 100_000}


def test_an_object_longer_than_announced_is_not_read_to_its_end(
    objects: BadObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By chunks, whatever the length says: hundreds of megabytes come within a timeout."""
    sent = [0]

    def endless(handler: Any) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 100\r\n"
        dated = b'ETag: "0"\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\n'
        handler.wfile.write(head + dated)
        handler.close_connection = True
        while not objects.over.is_set():
            try:
                handler.wfile.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
            except OSError:
                return
            sent[0] += 1 << 16

    monkeypatch.setattr(cache_doubles._Handler, "do_GET", endless)
    store = open_remote("s3://bucket/x", PATIENT)
    begin = time.monotonic()
    assert store.get(key_of("a")) is None
    assert time.monotonic() - begin < 20
    assert sent[0] < 100 << 20


@pytest.mark.parametrize("kind", ["objects", "reapi"])
def test_what_a_server_says_cannot_steer_a_terminal(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "\x1b[31mred\x07\rover\nnext line\u202e" + "x" * 5000
    bad = request.getfixturevalue(kind)
    if kind == "reapi":
        status = bad.m.Status(code=13, message=words)
        bad.read = lambda asked: bad.m.BatchReadBlobsResponse(
            responses=[bad.m.BlobRead(digest=d, status=status) for d in asked.digests]
        )
        url = bad.url
    else:
        monkeypatch.setattr(
            cache_doubles._Handler, "do_GET", lambda handler: handler._answer(400, words.encode())
        )
        url = "s3://bucket/x"
    open_remote(url, PATIENT).put(key_of("a"), OUTPUTS)
    warnings: list[str] = []
    store = open_store(url, "read", tmp_path, PATIENT, warnings.append)
    for _ in range(3):
        assert store.get(key_of("a")) is None
    assert len(warnings) == 1
    assert "red" in warnings[0]
    assert warnings[0].isprintable()
    assert len(warnings[0]) < 600


def test_blobs_that_were_not_acknowledged_are_not_published(reapi: BadReapi) -> None:
    reapi.write = lambda request: reapi.m.BatchUpdateBlobsResponse()  # type: ignore[method-assign]
    store = open_remote(reapi.url, PATIENT)
    with pytest.raises(CacheError, match="0 blobs answered of"):
        store.put(key_of("a"), OUTPUTS)
    assert store.counts.written == 0
    assert reapi.results == {}


def test_a_server_that_hangs_costs_many_keys_the_time_of_one(bad: Any) -> None:
    store = open_remote(bad.url, QUICK)
    bad.behaviour = "hang"
    begin = time.monotonic()
    with pytest.raises(CacheError):
        store.get_many(map(key_of, range(400)))
    assert time.monotonic() - begin < 8, "400 keys of 0.5 s, 8 or 16 at a time, take 12 s and more"


def test_results_that_fail_together_are_no_hits(objects: BadObjects, tmp_path: Path) -> None:
    open_remote("s3://bucket/x", PATIENT).put(key_of("a"), OUTPUTS)
    store = open_store("s3://bucket/x", "read", tmp_path, PATIENT)
    right = cache_doubles._Handler.do_GET

    def failing(handler: Any) -> None:
        if key_of("b") in handler.path:
            handler._answer(403)
        else:
            right(handler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_doubles._Handler, "do_GET", failing)
        assert store.get_many([key_of("a"), key_of("b")]) == {}
    assert (store.counts.hits, store.counts.misses) == (0, 2)


def full(root: Path) -> Path:
    """A place that takes no store."""
    root.write_bytes(b"")
    return root / "store"


def test_what_a_full_disk_did_not_keep_makes_no_count_negative(bad: Any, tmp_path: Path) -> None:
    open_remote(bad.url, PATIENT).put(key_of("a"), OUTPUTS)
    store = open_store(bad.url, "read", full(tmp_path / "file"), PATIENT)
    assert store.get(key_of("a")) == OUTPUTS
    counts = store.counts
    assert (counts.hits, counts.misses, counts.written, counts.unkept) == (1, 0, 0, 1)
    assert "cannot write" in store.refusal


def test_what_is_under_way_at_the_end_is_counted_once(
    reapi: BadReapi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a thread whose connection was closed end in a traceback."""
    odd: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", odd.append)
    store = open_store(reapi.url, "readwrite", tmp_path, PATIENT)
    assert isinstance(store, LayeredStore)
    assert store.get(key_of("x")) is None
    right: Callable[[Any], Any] = reapi.missing

    def slow(request: Any) -> Any:
        reapi.over.wait(1)
        return right(request)

    reapi.missing = slow  # type: ignore[method-assign]
    for n in range(8):
        store.keep(key_of(n), {"artifact": b"%d" % n})
    store.close()
    for thread in store._uploads._threads:
        thread.join(20)
    report = store.report()
    assert report["unpublished"] + report["unkept"] + report["published"] == 8
    assert odd == []
