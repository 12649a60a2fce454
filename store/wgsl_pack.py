"""WGSL packs: every module of a target with its manifest in one file, for pages to fetch.

    HEAD      one line of JSON: kind, schema, digest and bytes of the index, bytes of all below HEAD
    INDEX     JSON: [{"manifest": {...}, "sites": [PLACE or null...], "offset": n}...]
    MODULES   WGSL, one after the other; `offset` counts from their start

The head's digest covers the index, each manifest's that of its module. Entries stand as in the
bundle; equal modules are kept once. `web/runtime/pack.js` reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .bundle import Entry
from .schema import SCHEMA

KIND = "gristmill wgsl pack"


def wgsl_pack(entries: Sequence[tuple[Entry, bytes]]) -> bytes:
    """The file of some entries with their modules. ValueError where a module is not its entry's."""
    modules = bytearray()
    places: dict[str, int] = {}
    index: list[dict[str, Any]] = []
    for entry, module in entries:
        manifest = entry.manifest
        if hashlib.sha256(module).hexdigest() != manifest.sha256 or len(module) != manifest.size:
            raise ValueError(
                f"{entry.path}: {len(module)} bytes that are not those of its manifest "
                f"({manifest.size}, sha256 {manifest.sha256})"
            )
        if manifest.sha256 not in places:
            places[manifest.sha256] = len(modules)
            modules += module
        plain = asdict(entry)
        index.append(
            {
                "manifest": plain["manifest"],
                "sites": plain["sites"],
                "offset": places[manifest.sha256],
            }
        )
    table = _canonical(index)
    head = {
        "kind": KIND,
        "schema": SCHEMA,
        "index_sha256": hashlib.sha256(table).hexdigest(),
        "index_bytes": len(table),
        "bytes": len(table) + len(modules),
    }
    return b"\n".join([_canonical(head), table + modules])


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
