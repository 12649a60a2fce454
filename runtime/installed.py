"""Packs of installed wheels: distributions that name a module in the entry points of the group
`gristmill.kernels`. The module has VERSION (of the gristmill that made the packs), ABI (of the
packs) and packs() -> paths; `store.distribution.wheels` writes such wheels.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

from .. import __version__
from .errors import ArtifactMissing, ManifestInvalid, VersionMismatch

GROUP = "gristmill.kernels"


def installed_packs(name: str = "") -> list[Path]:
    """The packs of the wheels that the entry point `name` stands for, or of all.

    ArtifactMissing where there are none, VersionMismatch where a wheel is of another version or
    ABI than this runtime, ManifestInvalid where a distribution has not what it promises.
    """
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: (point.name, _of(point)))
    found = [point for point in points if name in ("", point.name)]
    if not found:
        there = ", ".join(dict.fromkeys(point.name for point in points)) or "none"
        raise ArtifactMissing(
            f"no kernels are installed{f' under the name {name}' if name else ''}",
            where=f"entry points {GROUP}",
            expected="a wheel with kernels",
            got=there,
            do=f"pip install gristmill-kernels-{name or 'BACKEND'}, or name a bundle",
        )
    return [path for point in found for path in _packs(point)]


def _packs(point: metadata.EntryPoint) -> list[Path]:
    where = f"{_of(point)} (entry point {point.name} = {point.value})"
    try:
        module = point.load()
        version, abi = module.VERSION, module.ABI
        paths = [Path(path) for path in module.packs()]
    except Exception as error:  # code of another distribution runs, which may raise anything
        raise ManifestInvalid(
            f"a distribution without the kernels that it promises: {error!r}",
            where=where,
            expected="a module with VERSION, ABI and packs()",
            do="install it again, or uninstall it",
        ) from error
    _check(where, version, abi)
    if not paths:
        raise ArtifactMissing("a distribution without packs", where=where, do="install it again")
    return paths


def _check(where: str, version: Any, abi: Any) -> None:
    """VersionMismatch unless kernels of that version and ABI are this runtime's."""
    from ..store.pack.format import ABI

    if abi == ABI and _series(str(version)) == _series(__version__):
        return
    raise VersionMismatch(
        "installed kernels of another version than the runtime",
        where=where,
        expected=f"those of gristmill {_series(__version__)}.*, ABI {ABI} "
        f"(the runtime is {__version__})",
        got=f"gristmill {version}, ABI {abi}",
        do="pip install gristmill and its kernels in one command, so that they fit",
    )


def _series(version: str) -> list[str]:
    """The part of a version within which kernels and runtimes fit: 0.1 of 0.1.3."""
    return version.split(".")[:2]


def _of(point: metadata.EntryPoint) -> str:
    dist = point.dist
    return f"{dist.name} {dist.version}" if dist else "?"
