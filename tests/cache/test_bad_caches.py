"""Caches that lie, hang, fail or are full: work goes on locally, and no wrong byte is used."""

from __future__ import annotations

import datetime
import hashlib
import time
from pathlib import Path
from typing import Any

import pytest

from cache_doubles import BadReapi, bad_reapi, key_of
from gristmill.store.interface import CacheError
from gristmill.store.layered import LayeredStore
from gristmill.store.opening import open_remote, open_store
from need import Need

OUTPUTS = {"artifact": b"\x7fELF" * 500, "manifest": b"{}"}
OTHER = {"artifact": b"another", "manifest": b"[]"}
LARGE = {"artifact": bytes(range(256)) * 8192}  # 2 MB: more than a batch, and than an entry carries
QUICK = {"GRISTMILL_CACHE_TIMEOUT": "0.5", "GRISTMILL_CACHE_FLUSH": "0.5"}


def layered(url: str, root: Path, **settings: str) -> tuple[LayeredStore, list[str]]:
    """A build's store before the cache, and what it is warned of."""
    warnings: list[str] = []
    environment = {**QUICK, **settings}
    store = open_store(url, "readwrite", root, environment, warnings.append)
    assert isinstance(store, LayeredStore)
    return store, warnings


@pytest.mark.parametrize("behaviour", ["wrong", "truncated", "swapped"])
@pytest.mark.parametrize("outputs", [OUTPUTS, LARGE], ids=["small", "large"])
def test_a_lie_is_a_miss_that_is_counted(
    bad: Any, behaviour: str, outputs: dict[str, bytes], tmp_path: Path
) -> None:
    writer = open_remote(bad.url, QUICK)
    writer.put(key_of("b"), OTHER)
    writer.put(key_of("a"), outputs)
    bad.behaviour = behaviour
    store, warnings = layered(bad.url, tmp_path)
    assert store.get(key_of("a")) is None
    assert store.counts.mismatches == 1
    bad.behaviour = "right"
    assert store.get(key_of("a")) == outputs
    assert store.get(key_of("b")) == OTHER
    assert warnings == []


def test_results_whose_blobs_are_gone_or_whose_digests_are_paths_are_misses(
    reapi: BadReapi,
) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(key_of("a"), OUTPUTS)
    for behaviour, mismatches in (("lost", 0), ("paths", 1)):
        reapi.behaviour = behaviour
        assert store.get(key_of("a")) is None
        assert store.counts.mismatches == mismatches


def test_a_blob_that_was_damaged_is_sent_again(reapi: BadReapi) -> None:
    store = open_remote(reapi.url, QUICK)
    store.put(key_of("a"), OUTPUTS)
    name = hashlib.sha256(OUTPUTS["artifact"]).hexdigest()
    reapi.blobs[name] = b"damaged"
    assert store.get(key_of("a")) is None
    store.put(key_of("a"), OUTPUTS)
    assert reapi.blobs[name] == OUTPUTS["artifact"]
    assert open_remote(reapi.url, QUICK).get(key_of("a")) == OUTPUTS


FAILURES = [
    ("objects", "500"),
    ("objects", "403"),
    ("objects", "hang"),
    ("objects", "cut"),
    ("reapi", "internal"),
    ("reapi", "denied"),
    ("reapi", "hang"),
]


@pytest.mark.parametrize(("kind", "behaviour"), FAILURES)
def test_a_failure_is_typed_and_a_build_goes_on_with_one_warning(
    kind: str, behaviour: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bad = request.getfixturevalue(kind)
    url = bad.url if kind == "reapi" else "s3://bucket/x"
    open_remote(url, QUICK).put(key_of("a"), OUTPUTS)
    bad.behaviour = behaviour
    with pytest.raises(CacheError, match=url):
        open_remote(url, QUICK).get(key_of("a"))
    store, warnings = layered(url, tmp_path)
    begin = time.monotonic()
    for n in range(20):
        name = "a" if n == 0 else f"{n}"
        assert store.get(key_of(name)) is None
        store.keep(key_of(name), OUTPUTS)
        assert store.get(key_of(name)) == OUTPUTS
    store.close()
    assert time.monotonic() - begin < 15, "not bounded: 20 requests of 0.5 s each and more"
    assert len(warnings) == 1
    assert url in warnings[0]
    assert store.counts.hits == 20
    assert store.report()["warning"] == warnings[0]


def test_a_cache_that_fails_after_it_worked_is_left_after_three_failures(
    reapi: BadReapi, tmp_path: Path
) -> None:
    store, warnings = layered(reapi.url, tmp_path)
    assert store.get(key_of("x")) is None
    reapi.behaviour = "internal"
    del reapi.requests[:]
    for n in range(10):
        assert store.get(key_of(f"{n}")) is None
    assert len(reapi.requests) == 3
    assert len(warnings) == 1


def test_a_cache_that_cannot_be_written_is_still_read(reapi: BadReapi, tmp_path: Path) -> None:
    open_remote(reapi.url, QUICK).put(key_of("a"), OUTPUTS)
    reapi.behaviour = "refuses"
    store, warnings = layered(reapi.url, tmp_path)
    assert store.get(key_of("a")) == OUTPUTS
    for n in range(10):
        store.keep(key_of(f"{n}"), {"artifact": b"%d" % n})
    store.close()
    assert len(warnings) == 1
    assert "it is full; nothing is published any more" in warnings[0]
    assert store.report()["unpublished"] + store.remote.counts.unkept == 10


def test_a_slow_cache_is_left_once_its_budget_is_spent(
    reapi: BadReapi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reapi.result

    def slow(request: Any) -> Any:
        time.sleep(0.1)
        return found(request)

    monkeypatch.setattr(reapi, "result", slow)
    store, warnings = layered(reapi.url, tmp_path, GRISTMILL_CACHE_BUDGET="0.35")
    for n in range(20):
        assert store.get(key_of(f"{n}")) is None
    assert reapi.requests.count("result") <= 4
    assert len(warnings) == 1
    assert "too slow" in warnings[0]


def test_publishing_does_not_slow_the_build_and_its_end_is_bounded(
    reapi: BadReapi, tmp_path: Path
) -> None:
    store, warnings = layered(reapi.url, tmp_path, GRISTMILL_CACHE_TIMEOUT="30")
    assert store.get(key_of("first")) is None
    reapi.behaviour = "hang"
    begin = time.monotonic()
    for n in range(50):
        store.local.keep(key_of(f"{n}"), OUTPUTS)
    alone = time.monotonic() - begin
    begin = time.monotonic()
    for n in range(50, 100):
        store.keep(key_of(f"{n}"), OUTPUTS)
    assert time.monotonic() - begin < alone + 10
    begin = time.monotonic()
    store.close()
    assert time.monotonic() - begin < 20
    assert warnings == [f"cache {reapi.url}: 50 results were not published in time"]


def test_reading_only_never_writes(bad: Any, tmp_path: Path) -> None:
    store = open_store(bad.url, "read", tmp_path, QUICK)
    assert store.get(key_of("a")) is None
    store.keep(key_of("a"), OUTPUTS)
    store.close()
    assert open_remote(bad.url, QUICK).get(key_of("a")) is None


def test_off_asks_nobody(bad: Any, tmp_path: Path) -> None:
    store = open_store(bad.url, "off", tmp_path, QUICK)
    assert store.get(key_of("a")) is None
    store.close()
    assert not bad.requests


def test_what_was_fetched_is_kept_here(bad: Any, tmp_path: Path) -> None:
    open_remote(bad.url, QUICK).put(key_of("a"), OUTPUTS)
    store, _ = layered(bad.url, tmp_path)
    assert store.get_many([key_of("a"), key_of("b")]) == {key_of("a"): OUTPUTS}
    assert store.get(key_of("a")) == OUTPUTS
    assert (store.local.counts.hits, store.remote.counts.hits) == (1, 1)
    assert (store.counts.hits, store.counts.misses) == (2, 1)


def test_a_server_without_capabilities_will_do(reapi: BadReapi) -> None:
    reapi.behaviour = "untold"
    store = open_remote(reapi.url, QUICK)
    store.put(key_of("a"), LARGE)
    assert store.get(key_of("a")) == LARGE


def certificate() -> tuple[bytes, bytes]:
    """Key and self-signed certificate of localhost, in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, made.public_bytes(pem)


def test_tls_and_token_come_from_the_environment(tmp_path: Path, require: Need) -> None:
    require("grpc")
    require("cryptography")
    import grpc

    secret, public = certificate()
    (tmp_path / "ca.pem").write_bytes(public)
    with bad_reapi(grpc.ssl_server_credentials([(secret, public)])) as server:
        trusted = {**QUICK, "GRISTMILL_CACHE_CA": str(tmp_path / "ca.pem")}
        store = open_remote(server.url, {**trusted, "GRISTMILL_CACHE_TOKEN": "secret"})
        store.put(key_of("a"), OUTPUTS)
        assert store.get(key_of("a")) == OUTPUTS
        assert ("authorization", "Bearer secret") in server.metadata
        with pytest.raises(CacheError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
            open_remote(server.url, QUICK).get(key_of("a"))  # no certificate of a known authority
