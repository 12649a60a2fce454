"""Bundles that are packs: one file, or a directory of them, signed where that is required."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .bundle import Artifact, Bundle, check_types
from .errors import (
    ArtifactCorrupt,
    ArtifactMissing,
    BundleError,
    CodecMissing,
    Untrusted,
    VersionMismatch,
)

if TYPE_CHECKING:
    from ..store.pack.reading import Pack

SUFFIX = ".pack"
Keys = str | Path | Sequence[str | Path] | None


def opened(name: str, verify: bool, keys: Keys) -> Bundle | None:
    """What `bundle.open_bundle` opens by a name of packs; None where it is no such name."""
    if name.startswith("installed:"):
        from .installed import installed_packs

        files = installed_packs(name.removeprefix("installed:"))
    else:
        path = Path(name)
        one = path.suffix == SUFFIX and not path.is_dir()
        files = [path] if one else _files(path)
        if not files:
            return None
    return open_files(files, Path(name), verify, keys)


def open_files(files: Sequence[Path], where: Path, verify: bool, keys: Keys) -> Bundle:
    """The bundle of some packs, in their order. where: what it is called in messages.

    Raises as `bundle.open_bundle`; BundleError where two packs hold an entry of one path.
    """
    from ..store.pack.reading import Pack

    index: dict[tuple[str, str], list[tuple[Pack, int]]] = {}
    packs: list[Pack] = []
    signers = []
    for file in files:
        with translated():
            pack = Pack.open(file)
            packs.append(pack)
            if verify:
                signers.append(_signer(pack, keys))
        for number, key in enumerate(zip(pack.kernels, pack.specializations, strict=True)):
            index.setdefault(key, []).append((pack, number))
    _refuse_twins(packs)
    return Bundle(str(where), index, _artifact, _digest(packs), tuple(signers))


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turns the store's errors into the runtime's."""
    from ..store.pack import errors
    from ..store.trust.errors import TrustError

    try:
        yield
    except errors.PackError as error:
        kinds: dict[type[errors.PackError], type[BundleError]] = {
            errors.PackMissing: ArtifactMissing,
            errors.PackVersion: VersionMismatch,
            errors.CodecMissing: CodecMissing,
        }
        kind = kinds.get(type(error), ArtifactCorrupt)
        raise kind(
            error.what, where=error.where, expected=error.expected, got=error.got, do=error.do
        ) from error
    except TrustError as error:
        raise Untrusted(error.what, where=error.where, do=error.do) from error


def _artifact(place: tuple[Pack, int]) -> Artifact:
    pack, number = place
    with translated():
        entry = pack.entry(number)
    file = pack.path / entry.path
    check_types(entry.manifest, file)
    from ..ir.interface import Loc

    locs = tuple(Loc(site.file, site.line, site.column) if site else None for site in entry.sites)
    return Artifact(entry.manifest, file, locs, functools.partial(_read, pack, number))


def _read(pack: Pack, number: int) -> bytes:
    with translated():
        return pack.read(number)


def _signer(pack: Pack, keys: Keys) -> str:
    from ..store.trust.keys import stated_keys, trusted_keys
    from ..store.trust.signing import verify_open

    given = stated_keys() if keys is None else [keys] if isinstance(keys, str | Path) else keys
    return verify_open(pack, trusted_keys(given)).key.name


def _refuse_twins(packs: Sequence[Pack]) -> None:
    seen: dict[str, Pack] = {}
    for pack in packs:
        for path in pack.paths if len(packs) > 1 else ():
            if (other := seen.setdefault(path, pack)) is not pack:
                raise BundleError(
                    f"two packs hold {path}",
                    where=str(pack.path),
                    got=f"another in {other.path}",
                    do="keep one of them in the folder",
                )


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob(f"*{SUFFIX}"))
    except (OSError, ValueError):  # ValueError: a path with a NUL in it
        return []


def _digest(packs: Sequence[Pack]) -> str:
    """That of the only pack, or one over those of all in their order."""
    if len(packs) == 1:
        return packs[0].digest
    import hashlib

    return hashlib.sha256("".join(pack.digest for pack in packs).encode()).hexdigest()
