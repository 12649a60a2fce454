"""Packs in an OCI registry: pushing them, and pulling them so that none stands at its place before
it is whole, of this ABI and of a known key.

One reference names one manifest, of packs for any number of targets:

    artifactType    application/vnd.gristmill.packs.v1
    layers          application/vnd.gristmill.pack.v1, one a pack, with the annotations
                    org.opencontainers.image.title (its file), gristmill.target, gristmill.abi
                    application/vnd.gristmill.signature.v1, what lies beside it: the same title
                    with .sig, the same target

Nothing in it is of the time or the machine: equal packs have the same digest wherever they are
pushed. A pull takes some of the targets, or all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import WriteError
from ..trust.signing import signature_file
from .errors import AbiMismatch, ArtifactInvalid, TargetMissing
from .facts import ABI, PackFacts, beside, facts
from .layers import EMPTY, MANIFEST, PACK, SIGNED, Layer, layer, manifest_text, read_manifest
from .reference import Reference
from .registry import Registry, sha256

_DAY = 86400.0  # seconds


@dataclass(frozen=True)
class Pulled:
    """What a pull brought. reference: by the digest of what was found. present: packs that lay at
    their place already, and were not fetched."""

    reference: Reference
    packs: tuple[Path, ...]
    present: int


def push(registry: Registry, packs: Sequence[PackFacts]) -> Reference:
    """Upload packs, and what lies beside them, under one reference; gives it with its digest.

    ArtifactInvalid where there is none, or two of one target or name.
    """
    where = registry.reference
    if where.digest:
        raise ArtifactInvalid(
            "a digest cannot be pushed to: it follows from the packs",
            where=str(where),
            do="give a tag, NAME:TAG",
        )
    found: list[tuple[Path, Layer]] = []
    for pack in sorted(packs, key=lambda pack: pack.target):
        found.append((pack.path, layer(pack.path, PACK, pack.target, pack.abi)))
        found += [(file, layer(file, SIGNED, pack.target, pack.abi)) for file in beside(pack.path)]
    text = manifest_text([each for _, each in found])
    read_manifest(text, str(where))  # what could not be pulled must not be pushed
    for path, each in found:
        data = path.read_bytes()
        if sha256(data) != each.digest:
            raise ArtifactInvalid("a file that changed while it was pushed", where=str(path))
        registry.send(each.digest, data)
    registry.send(sha256(EMPTY), EMPTY)
    return where.at(registry.send_manifest(text, MANIFEST))


def pull(
    registry: Registry, folder: Path, targets: Sequence[str], verify: Callable[[Path], object]
) -> Pulled:
    """Fetch packs, and what lies beside them, into a folder: all that are asked for, or none.

    targets: targets or backends, `ptx-sm_80` or `ptx`; none is all. verify: is called with each
    pack, its signature beside it, before it gets to its place, and raises where it is not to be
    trusted. Packs that are there already are verified as well, and not fetched.
    """
    where = str(registry.reference)
    text = registry.manifest(MANIFEST)
    layers = _chosen(read_manifest(text, where), targets, where)
    for each in layers:
        if each.abi != ABI:
            raise AbiMismatch(f"{where}, {each.title}", each.abi, ABI)
    with _workplace(folder) as work:
        present = 0
        for each in layers:
            if _is_there(folder / each.title, each):
                shutil.copyfile(folder / each.title, work / each.title)
                present += each.kind == PACK
            else:
                registry.fetch(each.digest, each.size, work / each.title)
        for each in layers:
            if each.kind == PACK:
                _check(work / each.title, each, where)
                verify(work / each.title)
        # The signature last: what lies there in between is a pack that its signature does not fit.
        for each in layers:
            _place(work / each.title, folder / each.title)
    packs = tuple(folder / each.title for each in layers if each.kind == PACK)
    signed = {each.target for each in layers if each.kind == SIGNED}
    for each in layers:
        if each.kind == PACK and each.target not in signed:
            signature_file(folder / each.title).unlink(missing_ok=True)  # of the pack before
    return Pulled(registry.reference.at(sha256(text)), packs, present)


def _chosen(layers: Sequence[Layer], targets: Sequence[str], where: str) -> list[Layer]:
    """The layers of the targets that are asked for; TargetMissing names those that there are."""
    if not targets:
        return list(layers)
    there = sorted({each.target for each in layers})
    for target in targets:
        if not any(_of(found, target) for found in there):
            raise TargetMissing(
                f"no pack for {target}", where=where, expected=f"one of {', '.join(there)}"
            )
    return [each for each in layers if any(_of(each.target, target) for target in targets)]


def _of(target: str, asked: str) -> bool:
    return asked in (target, target.partition("-")[0])


def _is_there(path: Path, each: Layer) -> bool:
    """Whether the file lies at its place already."""
    try:
        if path.stat().st_size != each.size:
            return False
        with open(path, "rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}" == each.digest
    except OSError:
        return False


def _check(path: Path, each: Layer, where: str) -> None:
    """That a pack is for the target that the manifest says; all of it is read."""
    found = facts(path)
    if found.target != each.target:
        raise ArtifactInvalid(
            "a pack of another target than its manifest says",
            where=f"{where}, {each.title}",
            expected=each.target,
            got=found.target,
            do="push the packs again",
        )


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A folder within `folder` for what is not verified yet; it is gone afterwards."""
    work = folder / f".pull.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        work.mkdir(parents=True)
        _sweep(folder)
    except OSError as error:
        raise WriteError(work, error) from error
    try:
        yield work
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(folder, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Delete what pulls that were killed a day ago or earlier left."""
    for path in folder.glob(".pull.*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _DAY:
                shutil.rmtree(path)


def _place(temporary: Path, path: Path) -> None:
    try:
        os.replace(temporary, path)
    except OSError as error:
        raise WriteError(path, error) from error
