"""What distribution needs to know of a pack, asked of the pack itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..pack import format
from ..pack.reading import Pack
from ..trust.signing import signature_file
from .errors import ArtifactInvalid

SUFFIX = format.SUFFIX
ABI = format.ABI


@dataclass(frozen=True)
class PackFacts:
    """A pack: its file, the target that it is for, the number of its ABI."""

    path: Path
    target: str
    abi: int


def facts(path: Path) -> PackFacts:
    """The facts of a pack, all of which is read and found right.

    PackError where it is not, ArtifactInvalid where it is of no target or of several.
    """
    with Pack.open(path) as pack:
        pack.verify()
        targets = sorted({entry.manifest.target for entry in pack})
    if len(targets) != 1:
        raise ArtifactInvalid(
            "a pack that is not of one target",
            where=str(path),
            got=", ".join(targets) or "an empty pack",
            do="ship one pack for each target, as scons pack makes them",
        )
    return PackFacts(path, targets[0], ABI)


def beside(pack: Path) -> tuple[Path, ...]:
    """The files that belong to a pack: its signature, where it has one."""
    signature = signature_file(pack)
    return (signature,) if signature.is_file() else ()
