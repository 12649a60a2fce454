"""The bundle: the index of a folder of artifacts, `bundle.json`, as the build writes it.

    {"schema": 1, "entries": [ENTRY...], "digest": sha256 of the canonical JSON of the entries}
    ENTRY = {"manifest": {...}, "path": "cpu-x86-64-v3/saxpy/f32.so", "sites": [PLACE or null...]}
    PLACE = {"file": "kernels/saxpy.py", "line": 12, "column": 5}, one per fault site

Entries of one kernel, specialization and target stand together, in declared order of their
variants. Paths are relative to the folder and use `/`. The digest covers every manifest, and a
manifest holds the digest of its artifact: whoever trusts a bundle's digest can trust all of it.
`runtime.open_bundle` reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import write_atomic
from .manifest import Manifest
from .schema import SCHEMA

NAME = "bundle.json"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the kernel source a fault site stands; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One artifact of a bundle: manifest, path within the bundle, places of its fault sites."""

    manifest: Manifest
    path: str
    sites: tuple[Place | None, ...] = ()


def bundle_json(entries: Sequence[Entry]) -> str:
    """The canonical text of a bundle."""
    text = _canonical(list(entries))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"digest":"{digest}","entries":{text},"schema":{SCHEMA}}}'


def write_bundle(folder: Path, entries: Sequence[Entry]) -> Path:
    """Write `bundle.json` into a folder, all or nothing. WriteError where the disk refuses."""
    path = folder / NAME
    write_atomic(path, bundle_json(entries).encode())
    return path


def site_places(manifest: Manifest, locs: bytes) -> tuple[Place | None, ...]:
    """Where in the kernel source each fault site stands. locs: the line table of the trace, JSON
    as {"LINE": [file, line, column]...}."""
    table = json.loads(locs)
    lines = manifest.facts.get("site_lines", [0] * len(manifest.sites))
    return tuple(Place(*table[str(n)]) if str(n) in table else None for n in lines)


def read_bundle(path: Path) -> list[Entry]:
    """The entries of a `bundle.json` that was just made. ManifestError; what a runtime is to open,
    `runtime.open_bundle` checks."""
    data = json.loads(path.read_bytes())
    return [
        Entry(
            Manifest.from_dict(row["manifest"], row["path"]),
            row["path"],
            tuple(Place(**site) if site else None for site in row["sites"]),
        )
        for row in data["entries"]
    ]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_fields)


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass as JSON takes it; `asdict` would copy all that is in it first."""
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
