"""The manifest under which packs lie in a registry, written in one way and read strictly.

`oci` shows it. What it says is a claim of the registry: names of files are taken only where they
are plain names, sizes are bounds, and the bytes are held against the digests.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..pack.format import SUFFIX
from ..trust.signing import SUFFIX as SIGNATURE
from .errors import ArtifactInvalid

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.gristmill.packs.v1"
PACK = "application/vnd.gristmill.pack.v1"
SIGNED = "application/vnd.gristmill.signature.v1"
TITLE, TARGET, ABI = "org.opencontainers.image.title", "gristmill.target", "gristmill.abi"
EMPTY = b"{}"  # the config of what needs none
_CONFIG = "application/vnd.oci.empty.v1+json"
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,200}")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_LARGEST = {PACK: 8 << 30, SIGNED: 4 << 20}  # bytes
_MOST = 1000  # layers


@dataclass(frozen=True)
class Layer:
    """A file of a set of packs: what it is (PACK or SIGNED), digest and size, name, target, ABI."""

    kind: str
    digest: str
    size: int
    title: str
    target: str
    abi: int


def layer(path: Path, kind: str, target: str, abi: int) -> Layer:
    """The layer that a file becomes."""
    data = path.read_bytes()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return Layer(kind, digest, len(data), path.name, target, abi)


def manifest_text(layers: Sequence[Layer]) -> bytes:
    """The manifest of some layers, in canonical form."""
    config = {
        "mediaType": _CONFIG,
        "digest": f"sha256:{hashlib.sha256(EMPTY).hexdigest()}",
        "size": len(EMPTY),
    }
    plain = [
        {
            "mediaType": each.kind,
            "digest": each.digest,
            "size": each.size,
            "annotations": {TITLE: each.title, TARGET: each.target, ABI: str(each.abi)},
        }
        for each in layers
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": config,
        "layers": plain,
    }
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def read_manifest(text: bytes, where: str) -> list[Layer]:
    """The layers of a manifest. ArtifactInvalid where it is another thing, or names a file that is
    no plain name, one twice, or a target twice."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _invalid("a manifest that is not JSON", where, "", str(error)) from error
    kind = data.get("artifactType") if isinstance(data, dict) else None
    if kind != ARTIFACT:
        got = repr(kind or (data.get("mediaType") if isinstance(data, dict) else data))
        raise _invalid("not a set of packs", where, ARTIFACT, got)
    found = data.get("layers")
    if not isinstance(found, list) or not 0 < len(found) <= _MOST:
        got = f"{len(found)} layers" if isinstance(found, list) else repr(found)
        raise _invalid("a set of packs", where, f"1 to {_MOST} layers", got)
    layers = [_layer(each, f"{where}, layer {number}") for number, each in enumerate(found)]
    packs = {each.target: each for each in layers if each.kind == PACK}
    if len(packs) != sum(each.kind == PACK for each in layers):
        raise _invalid("two packs of one target", where, "one for each", "")
    names = {each.title.lower() for each in layers}  # as file systems that fold case see them
    if len(names) != len(layers):
        raise _invalid("two files of one name", where, "a name for each", "")
    for each in layers:
        pack = packs.get(each.target)
        if each.kind == SIGNED and (pack is None or each.title != pack.title + SIGNATURE):
            raise _invalid("a signature of no pack", where, "PACK.sig", repr(each.title))
    return layers


def _layer(data: Any, where: str) -> Layer:
    notes = data.get("annotations") if isinstance(data, dict) else None
    if not isinstance(notes, dict):
        raise _invalid("a layer without annotations", where, f"{TITLE}, {TARGET}, {ABI}", "")
    kind, digest, size = data.get("mediaType"), data.get("digest"), data.get("size")
    title, target, abi = notes.get(TITLE), notes.get(TARGET), notes.get(ABI)
    if not isinstance(kind, str) or kind not in _LARGEST:
        raise _invalid("a layer of another kind", where, " or ".join(_LARGEST), repr(kind))
    suffix = SUFFIX if kind == PACK else SUFFIX + SIGNATURE
    if not isinstance(title, str) or not _FILE.fullmatch(title) or not title.endswith(suffix):
        raise _invalid("a file name", where, f"a plain name that ends in {suffix}", repr(title))
    if not isinstance(target, str) or not _WORD.fullmatch(target):
        raise _invalid("a target", where, "its name", repr(target))
    if not isinstance(abi, str) or not re.fullmatch("[0-9]{1,9}", abi):
        raise _invalid("an ABI", where, "a number", repr(abi))
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _invalid("a digest", where, "sha256:...", repr(digest))
    if type(size) is not int or not 0 <= size <= _LARGEST[kind]:
        raise _invalid("a size", where, f"0 to {_LARGEST[kind]} bytes", repr(size))
    return Layer(kind, digest, size, title, target, int(abi))


def _invalid(what: str, where: str, expected: str, got: str) -> ArtifactInvalid:
    do = "name what gristmill push has made, or pull with the gristmill that made it"
    return ArtifactInvalid(what, where=where, expected=expected, got=got, do=do)
