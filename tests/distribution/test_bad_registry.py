"""A registry that is broken, lies or attacks: each a typed error, and nothing gets to its place."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from gristmill.store.distribution.errors import (
    AbiMismatch,
    ArtifactInvalid,
    ContentMismatch,
    DistributionError,
    RegistryRefused,
    RegistryUnreachable,
)
from gristmill.store.distribution.oci import push
from gristmill.store.files import WriteError
from gristmill.store.pack.errors import PackError
from gristmill.store.trust.errors import ForeignSignature, ForgedSignature, Unsigned
from gristmill.store.trust.keys import new_key
from registries import Fake

from .conftest import Shop

TITLE = "org.opencontainers.image.title"


def is_pack(handler: Any) -> bool:
    """Whether a request is for the bytes of the first pack."""
    layers = handler.server.manifest()["layers"] if "v1" in handler.server.content else []
    return handler.command == "GET" and bool(layers) and layers[0]["digest"] in handler.path


def wrong(handler: Any) -> bool:
    """Answers with other bytes of the same length."""
    if is_pack(handler):
        body = handler.server.content[handler.path.rpartition("/")[2]]
        handler.answer(200, body[:-1] + bytes([body[-1] ^ 1]))
    return is_pack(handler)


def short(handler: Any) -> bool:
    """Answers with a part, and says that this is all."""
    if is_pack(handler):
        handler.answer(200, handler.server.content[handler.path.rpartition("/")[2]][:100])
    return is_pack(handler)


def endless(handler: Any) -> bool:
    """Answers with more than there is, without end."""
    if is_pack(handler):
        handler.answer(200, Content_Length=str(1 << 40))
        while not handler.server.stopped.is_set():
            handler.wfile.write(bytes(1 << 16))
    return is_pack(handler)


def cut(handler: Any) -> bool:
    """Ends the connection in the middle."""
    if is_pack(handler):
        handler.answer(200, b"begin", Content_Length="1000")
        handler.close_connection = True
    return is_pack(handler)


def hang(handler: Any) -> bool:
    """Never answers."""
    if is_pack(handler):
        handler.server.stopped.wait(60)
    return is_pack(handler)


def drip(handler: Any) -> bool:
    """Answers a byte at a time, so that no wait is ever long."""
    if is_pack(handler):
        handler.answer(200, Content_Length="1000")
        while not handler.server.stopped.wait(0.05):
            handler.wfile.write(b".")
    return is_pack(handler)


def drip_headers(handler: Any) -> bool:
    """The same before the body begins."""
    if is_pack(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not handler.server.stopped.wait(0.05):
            handler.wfile.write(b".")
    return is_pack(handler)


def fail(handler: Any) -> bool:
    """Answers 500, in colour."""
    if is_pack(handler):
        handler.answer(500, b"\x1b[31mdatabase on fire\x1b[0m" + b"x" * 5000)
    return is_pack(handler)


@pytest.mark.parametrize(
    ("misbehave", "error", "words", "calls"),
    [
        (wrong, ContentMismatch, "not what its digest promises.*expected .*sha256", 1),
        (short, RegistryUnreachable, "no whole answer after 2 attempts.*100 of", 2),
        (endless, ContentMismatch, "got more than", 1),
        (cut, RegistryUnreachable, "no whole answer after 2 attempts", 2),
        (hang, RegistryUnreachable, r"no whole answer.*timed out", 1),
        (drip, RegistryUnreachable, "not done after", 1),
        (drip_headers, RegistryUnreachable, "not done after", 1),
        (fail, RegistryRefused, "cannot do this now.*500 .*database on fire", 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_misbehaves_ends_in_an_error_in_time(
    shop: Shop,
    fake: Fake,
    misbehave: Callable[[Any], bool],
    error: type[DistributionError],
    words: str,
    calls: int,
) -> None:
    shop.push(fake.host)
    fake.calls.clear()
    fake.misbehave = misbehave
    slow = misbehave in (hang, drip, drip_headers)
    begin = time.monotonic()
    with pytest.raises(error, match=words) as caught:
        shop.pull(fake.host, timeout=1.5 if slow else 20.0, attempts=1 if slow else 2)
    assert time.monotonic() - begin < 15
    assert shop.there() == []
    assert fake.count("GET", fake.manifest()["layers"][0]["digest"]) == calls
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 900


def test_what_passes_is_tried_again(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    left = [cut, fail]
    fake.misbehave = lambda handler: is_pack(handler) and left.pop()(handler) if left else False
    shop.pull(fake.host, attempts=3)
    assert len(shop.there()) == 4
    assert not left


def test_nobody_there_is_told(shop: Shop, fake: Fake) -> None:
    fake.__exit__()
    with pytest.raises(RegistryUnreachable, match=r"no whole answer after 2 attempts.*refused"):
        shop.pull(fake.host)


def test_a_manifest_of_another_digest_is_refused(shop: Shop, fake: Fake) -> None:
    reference = shop.push(fake.host)
    other = push(shop.registry(fake.host, "kernels:v2"), [shop.pack("ptx-sm_90")])
    fake.content[reference.digest] = fake.content[other.digest]
    with pytest.raises(ContentMismatch, match="another digest than was asked for"):
        shop.pull(fake.host, f"kernels@{reference.digest}")

    def lie(handler: Any) -> bool:
        if handler.path.endswith("/manifests/v1"):
            handler.answer(200, fake.content["v1"], Docker_Content_Digest=other.digest)
        return handler.path.endswith("/manifests/v1")

    fake.misbehave = lie
    with pytest.raises(ContentMismatch, match="another digest than was asked for"):
        shop.pull(fake.host)
    assert shop.there() == []


def _title(text: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["layers"][0]["annotations"].__setitem__(TITLE, text)


def _layer(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["layers"][0].update(changes)


def _one_name(manifest: dict[str, Any]) -> None:
    """Two packs without signatures, of names that differ in case alone."""
    manifest["layers"] = manifest["layers"][::2]
    for layer, title in zip(manifest["layers"], ("a.pack", "A.pack"), strict=True):
        layer["annotations"][TITLE] = title


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_title("../../etc/gristmill.pack"), "plain name"),
        (_title("/etc/gristmill.pack"), "plain name"),
        (_title("..\\gristmill.pack"), "plain name"),
        (_title(".pack"), "plain name"),
        (_title("-rf.pack"), "plain name"),
        (_title("a\x00.pack"), "plain name"),
        (_title("authorized_keys"), "plain name"),
        (_title("a" * 300 + ".pack"), "plain name"),
        (_title(None), "plain name"),
        (_title("GRISTMILL-spirv-vulkan1.1.pack"), "two files of one name|signature of no pack"),
        (_one_name, "two files of one name"),
        (_layer(digest="sha256:../../../../etc/passwd"), "a digest"),
        (_layer(digest="md5:00"), "a digest"),
        (_layer(size=1 << 60), "a size"),
        (_layer(size=-1), "a size"),
        (_layer(size=True), "a size"),
        (_layer(annotations=None), "without annotations"),
        (_layer(mediaType="application/vnd.oci.image.layer.v1.tar+gzip"), "of another kind"),
        (_layer(mediaType=[]), "of another kind"),
        (_layer(mediaType={}), "of another kind"),
        (lambda m: m.pop("artifactType"), "not a set of packs"),
        (lambda m: m.update(layers=[]), "1 to 1000 layers"),
        (lambda m: m.update(layers={}), "1 to 1000 layers"),
        (lambda m: m.update(layers=m["layers"] * 2), "two packs of one target"),
        (lambda m: m["layers"].pop(0), "a signature of no pack"),
    ],
)
def test_a_manifest_with_tricks_is_refused(
    shop: Shop, fake: Fake, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    shop.push(fake.host)
    manifest = fake.manifest()
    change(manifest)
    fake.put_manifest(manifest)
    fake.calls.clear()
    with pytest.raises(ArtifactInvalid, match=words):
        shop.pull(fake.host)
    assert shop.there() == []
    assert fake.count("GET", "/blobs/") == 0


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[]", b"\xff", b"null", b"[" * 5000])
def test_what_is_no_manifest_is_refused(shop: Shop, fake: Fake, body: bytes) -> None:
    fake.content["v1"] = body
    with pytest.raises(ArtifactInvalid):
        shop.pull(fake.host)


def test_a_manifest_without_end_is_refused(shop: Shop, fake: Fake) -> None:
    fake.content["v1"] = b" " * (5 << 20)
    with pytest.raises(ContentMismatch, match="a manifest without end"):
        shop.pull(fake.host)


def test_packs_of_another_abi_are_refused_before_they_are_fetched(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    manifest = fake.manifest()
    manifest["layers"][0]["annotations"]["gristmill.abi"] = "7"
    fake.put_manifest(manifest)
    with pytest.raises(AbiMismatch, match=r"a pack of ABI 7.*loads ABI 1.*install gristmill"):
        shop.pull(fake.host)
    assert fake.count("GET", "/blobs/") == 0


def test_a_foreign_signature_is_refused(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    shop.key = new_key("somebody else", 10)
    with pytest.raises(ForeignSignature, match="none of which is trusted"):
        shop.pull(fake.host)
    assert shop.there() == []


def _replace(fake: Fake, title: str, data: bytes) -> None:
    """Another file under a title, with a digest and size that are right."""
    manifest = fake.manifest()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    for layer in manifest["layers"]:
        if layer["annotations"][TITLE] == title:
            layer.update(digest=digest, size=len(data))
    fake.content[digest] = data
    fake.put_manifest(manifest)


def test_a_pack_that_was_exchanged_is_refused(shop: Shop, fake: Fake) -> None:
    """The registry writes the manifest: its digests tell of the way, the signature of the maker."""
    shop.push(fake.host)
    other = shop.pack("ptx-sm_80", "backdoor").path.read_bytes()
    _replace(fake, "gristmill-ptx-sm_80.pack", other)
    with pytest.raises(ForgedSignature, match="of another pack"):
        shop.pull(fake.host)
    _replace(fake, "gristmill-ptx-sm_80.pack", b"no pack at all")
    with pytest.raises(PackError):
        shop.pull(fake.host)
    manifest = fake.manifest()
    manifest["layers"] = [
        each for each in manifest["layers"] if not each["annotations"][TITLE].endswith(".sig")
    ]
    fake.put_manifest(manifest)
    _replace(fake, "gristmill-ptx-sm_80.pack", other)
    with pytest.raises(Unsigned):
        shop.pull(fake.host)
    assert shop.there() == []


def test_a_signed_pack_of_another_target_is_refused(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    manifest = fake.manifest()
    targets = [each["annotations"]["gristmill.target"] for each in manifest["layers"]]
    for each, target in zip(manifest["layers"], reversed(targets), strict=True):
        each["annotations"]["gristmill.target"] = target
    fake.put_manifest(manifest)
    with pytest.raises(ArtifactInvalid, match="another target than its manifest says"):
        shop.pull(fake.host)
    assert shop.there() == []


def test_one_bad_pack_leaves_what_was_there(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    shop.pull(fake.host)
    before = {name: (shop.here / name).read_bytes() for name in shop.there()}
    packs = [shop.pack("ptx-sm_80", "new"), shop.pack("spirv-vulkan1.1", "new")]
    push(shop.registry(fake.host), packs)
    fake.misbehave = wrong
    with pytest.raises(ContentMismatch):
        shop.pull(fake.host)
    assert {name: (shop.here / name).read_bytes() for name in shop.there()} == before


def test_a_folder_that_cannot_be_written_is_told(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    shop.here.write_bytes(b"a file")
    with pytest.raises(WriteError, match="cannot write"):
        shop.pull(fake.host)


def test_what_a_killed_pull_left_goes_after_a_day(shop: Shop, fake: Fake) -> None:
    shop.push(fake.host)
    for name, age in ((".pull.1.00000000.tmp", 2), (".pull.2.00000000.tmp", 0)):
        (shop.here / name).mkdir(parents=True)
        (shop.here / name / "half.pack").write_bytes(b"half")
        then = time.time() - age * 86400
        os.utime(shop.here / name, (then, then))
    shop.pull(fake.host)
    assert [name for name in shop.there() if name.startswith(".")] == [".pull.2.00000000.tmp"]
