"""What a cache store promises of each request: who wins, what is refused, what is counted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cache_doubles import BadObjects, BadReapi, key_of
from gristmill.store import layered, uploads
from gristmill.store.interface import CacheError
from gristmill.store.layered import LayeredStore
from gristmill.store.opening import open_remote, open_store

QUICK = {"GRISTMILL_CACHE_TIMEOUT": "2", "GRISTMILL_CACHE_FLUSH": "10"}
TEXT = b"gristmill action 3\n..."
KEY = hashlib.sha256(TEXT).hexdigest()
LARGE = {"artifact": bytes(range(256)) * 16_384}  # 4 MB: streamed


def joined(reapi: BadReapi, root: Path, **settings: str) -> tuple[LayeredStore, list[str]]:
    warnings: list[str] = []
    store = open_store(reapi.url, "readwrite", root, {**QUICK, **settings}, warnings.append)
    assert isinstance(store, LayeredStore)
    return store, warnings


def test_the_first_publisher_wins(objects: BadObjects) -> None:
    for words in (b"one", b"two"):
        open_remote("s3://bucket/x", QUICK).put(KEY, {"artifact": words})
    assert open_remote("s3://bucket/x", QUICK).get(KEY) == {"artifact": b"one"}


def test_the_result_of_an_action_that_failed_is_none(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(KEY, {"artifact": b"1"})
    (result,) = reapi.results.values()
    result.exit_code = 1
    assert store.get(KEY) is None
    assert store.counts.mismatches == 1


def test_a_text_of_another_action_is_none(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(KEY, {"artifact": b"1"}, TEXT)
    assert store.action(KEY) == TEXT
    other = b"gristmill action 3\nanother"
    (result,) = reapi.results.values()
    for file in result.output_files:
        if file.path == "gristmill-action":
            file.digest.hash, file.digest.size_bytes = hashlib.sha256(other).hexdigest(), len(other)
    reapi.blobs[hashlib.sha256(other).hexdigest()] = other
    assert store.action(KEY) is None


def test_a_text_with_other_bytes_is_none(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(KEY, {"artifact": b"1"}, TEXT)
    reapi.blobs[KEY] = TEXT.upper()
    assert store.action(KEY) is None


def test_nothing_is_published_to_a_cache_that_never_was_there(
    reapi: BadReapi, tmp_path: Path
) -> None:
    store, warnings = joined(reapi, tmp_path)
    reapi.behaviour = "internal"
    assert store.get(KEY) is None
    for n in range(10):
        store.keep(key_of(n), {"artifact": b"%d" % n})
    store.close()
    assert reapi.requests == ["result"]
    assert len(warnings) == 1


def test_a_stream_that_was_taken_in_part_is_not_published(reapi: BadReapi) -> None:
    def part(requests: Iterator[Any]) -> Any:
        return reapi.m.WriteResponse(committed_size=sum(len(r.data) for r in requests) - 1)

    reapi.stream_out = part  # type: ignore[method-assign]
    with pytest.raises(CacheError, match="4194303 bytes taken of 4194304"):
        open_remote(reapi.url, QUICK).put(KEY, LARGE)
    assert reapi.results == {}


def test_a_stream_longer_than_announced_is_not_read_to_its_end(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(KEY, LARGE)
    pieces = []

    def longer(request: Any) -> Iterator[Any]:
        while len(pieces) < 200 and not reapi.over.is_set():
            pieces.append(1)
            yield reapi.m.ReadResponse(data=bytes(1 << 20))

    reapi.stream_in = longer  # type: ignore[method-assign]
    assert store.get(KEY) is None
    assert store.counts.mismatches == 1
    assert len(pieces) < 100


def test_batches_are_no_larger_than_the_server_takes(reapi: BadReapi) -> None:
    most = 100_000
    cache = reapi.m.CacheCapabilities(digest_functions=[1], max_batch_total_size_bytes=most)
    capabilities = reapi.m.ServerCapabilities(cache_capabilities=cache)
    reapi.capabilities = lambda request: capabilities  # type: ignore[method-assign]
    sizes: list[int] = []
    write, read = reapi.write, reapi.read

    def writes(request: Any) -> Any:
        sizes.append(sum(len(r.data) for r in request.requests))
        return write(request)

    def reads(request: Any) -> Any:
        sizes.append(sum(d.size_bytes for d in request.digests))
        return read(request)

    reapi.write, reapi.read = writes, reads  # type: ignore[method-assign]
    store = open_remote(reapi.url, QUICK)
    outputs = {f"{n}": b"%03d" % n * 13_000 for n in range(12)}
    store.put(KEY, outputs)
    assert store.get(KEY) == outputs
    assert max(sizes) <= most
    assert len(sizes) >= 10


def test_a_server_of_another_digest_is_told(reapi: BadReapi) -> None:
    cache = reapi.m.CacheCapabilities(digest_functions=[2, 7])
    capabilities = reapi.m.ServerCapabilities(cache_capabilities=cache)
    reapi.capabilities = lambda request: capabilities  # type: ignore[method-assign]
    with pytest.raises(CacheError, match="does not work with SHA256"):
        open_remote(reapi.url, QUICK).put(KEY, {"artifact": b"1"})


def test_failures_count_only_in_a_row(reapi: BadReapi, tmp_path: Path) -> None:
    store, warnings = joined(reapi, tmp_path)
    for n in range(12):
        reapi.behaviour = "right" if n % 3 == 0 else "internal"
        assert store.get(key_of(n)) is None
    assert warnings == []
    assert reapi.requests.count("result") == 12


def test_slow_hits_spend_the_budget_beyond_what_they_are_worth(
    reapi: BadReapi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        open_remote(reapi.url, QUICK).put(key_of(n), {"artifact": b"%d" % n})
    found = reapi.result

    def slow(request: Any) -> Any:
        time.sleep(0.1)
        return found(request)

    reapi.result = slow  # type: ignore[method-assign]
    monkeypatch.setattr(layered, "_WORTH", 0.01)
    store, warnings = joined(reapi, tmp_path, GRISTMILL_CACHE_BUDGET="0.25")
    hits = sum(store.get(key_of(n)) is not None for n in range(20))
    assert 1 <= hits <= 4
    assert len(warnings) == 1
    assert "too slow" in warnings[0]


@pytest.mark.parametrize("bound", ["_BYTES", "_NUMBER"])
def test_what_the_queue_does_not_hold_is_left_out_and_counted(
    reapi: BadReapi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    store, warnings = joined(reapi, tmp_path, GRISTMILL_CACHE_FLUSH="0.2")
    assert store.get(key_of("first")) is None
    monkeypatch.setattr(uploads, bound, 3 if bound == "_NUMBER" else 300)
    reapi.behaviour = "hang"
    for n in range(40):
        store.keep(key_of(n), {"artifact": bytes([n]) * 100})
    assert store._uploads.left_out >= 40 - 3 - 4  # 4 are on their way
    store.close()
    assert store.report()["unpublished"] == 40
    assert warnings == [f"cache {reapi.url}: 40 results were not published in time"]


def test_the_end_waits_for_what_is_on_its_way(reapi: BadReapi, tmp_path: Path) -> None:
    update = reapi.update

    def slow(request: Any) -> Any:
        time.sleep(0.5)
        return update(request)

    reapi.update = slow  # type: ignore[method-assign]
    store, warnings = joined(reapi, tmp_path)
    store.keep(KEY, {"artifact": b"1"})
    store.close()
    assert (store.report()["published"], warnings) == (1, [])
