"""The bundle: the index of a folder of artifacts, `bundle.json`.

    {"schema": 1, "entries": [ENTRY...], "digest": sha256 of the canonical JSON of the entries}
    ENTRY = {"manifest": {...}, "path": "cpu-x86-64-v3/saxpy/f32.so", "sites": [PLACE...]}
    PLACE = {"file": "kernels/saxpy.py", "line": 12, "column": 5}, one per fault site

Entries of one kernel, specialization and target stand together, in declared order of their
variants. Paths are relative to the folder and use `/`. The digest covers every manifest, and a
manifest holds the digest of its artifact: whoever trusts the digest of a bundle can trust all of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .files import write_atomic
from .manifest import Manifest, ManifestError

SCHEMA = 1
NAME = "bundle.json"


class BundleFormatError(ValueError):
    """A bundle index that cannot be used: where it stands, what is wrong, what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the kernel source a fault site stands; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One artifact of a bundle: manifest, path within the bundle, places of its fault sites."""

    manifest: Manifest
    path: str
    sites: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """The content of a `bundle.json`."""

    entries: tuple[Entry, ...]

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON of the entries."""
        return _digest([asdict(entry) for entry in self.entries])

    def to_json(self) -> str:
        """The canonical text form."""
        entries = [asdict(entry) for entry in self.entries]
        return _canonical({"schema": SCHEMA, "entries": entries, "digest": _digest(entries)})

    @staticmethod
    def from_json(text: str | bytes, where: str = NAME) -> Index:
        """Read an index; BundleFormatError or ManifestError, the digest checked first."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise BundleFormatError(f"{where}: not JSON ({error}); build it again") from error
        if not isinstance(data, dict) or data.keys() != {"schema", "entries", "digest"}:
            raise BundleFormatError(f"{where}: not a bundle (expected schema, entries, digest)")
        if data["schema"] != SCHEMA:
            raise BundleFormatError(
                f"{where}: schema {data['schema']!r}, but this version reads {SCHEMA}; "
                "rebuild the bundle or install the matching gristmill"
            )
        found = _digest(data["entries"])
        if found != data["digest"]:
            raise BundleFormatError(
                f"{where}: damaged: its entries have digest {found}, "
                f"but it states {data['digest']!r}; build it again or fetch it again"
            )
        if not isinstance(data["entries"], list):
            raise BundleFormatError(f"{where}: entries must be a list")
        return Index(tuple(_entry(e, f"{where}, entry {n}") for n, e in enumerate(data["entries"])))


def write_bundle(folder: Path, entries: Sequence[Entry]) -> Path:
    """Write `bundle.json` into a folder, all or nothing. WriteError where the disk refuses."""
    path = folder / NAME
    write_atomic(path, Index(tuple(entries)).to_json().encode())
    return path


def read_bundle(folder: Path) -> Index:
    """Read the `bundle.json` of a folder (or that file itself).

    FileNotFoundError, BundleFormatError, ManifestError.
    """
    path = folder if folder.name == NAME else folder / NAME
    return Index.from_json(path.read_bytes(), str(path))


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _digest(entries: Any) -> str:
    return hashlib.sha256(_canonical(entries).encode()).hexdigest()


def _entry(data: Any, where: str) -> Entry:
    if not isinstance(data, dict) or data.keys() != {"manifest", "path", "sites"}:
        raise BundleFormatError(f"{where}: expected manifest, path and sites")
    path = data["path"]
    if not isinstance(path, str) or not _inside(path):
        raise BundleFormatError(f"{where}: {path!r} is not a path within the bundle")
    if not isinstance(data["sites"], list):
        raise BundleFormatError(f"{where}: sites must be a list")
    manifest = Manifest.from_dict(data["manifest"], where)
    return Entry(manifest, path, tuple(_place(p, where) for p in data["sites"]))


def _inside(path: str) -> bool:
    parts = PurePosixPath(path)
    return bool(path) and not parts.is_absolute() and ".." not in parts.parts and "\\" not in path


def _place(data: Any, where: str) -> Place:
    if not isinstance(data, dict) or data.keys() != {"file", "line", "column"}:
        raise BundleFormatError(f"{where}: a site has file, line and column")
    if not isinstance(data["file"], str) or not all(
        isinstance(data[name], int) for name in ("line", "column")
    ):
        raise BundleFormatError(f"{where}: a site is a file name and two numbers")
    return Place(data["file"], data["line"], data["column"])


__all__ = [
    "BundleFormatError",
    "Entry",
    "Index",
    "ManifestError",
    "Place",
    "read_bundle",
    "write_bundle",
]
