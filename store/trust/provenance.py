"""Provenance records: from what a pack was made, and by what, in SLSA v1's form.

A record is an in-toto statement v1 with a predicate of type https://slsa.dev/provenance/v1:
the subject is the pack; `externalParameters` what was asked for, `resolvedDependencies` what it was
made from (source commit, the compiler's own sources by stage, tools), `builder` who made it. There
is no time in it: equal inputs give equal records. `dirty` says that the source was not that of the
commit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import read_small
from ..pack.reading import Pack
from .errors import BadFile

SUFFIX = ".provenance.json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD, MERGE = "urn:gristmill:scons-pack:1", "urn:gristmill:pack-merge:1"
LOCAL = "urn:gristmill:builder:local"
BUILDER = "GRISTMILL_BUILDER"  # the environment variable with the builder's URI
FILE, TABLE = "sha256", "gristmillTable"
MOST = 1 << 21  # bytes of a record
_DIGEST = re.compile("[0-9a-f]{64}")
_MATERIALS, _INTERNAL = "resolvedDependencies", "internalParameters"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a pack was made from. parameters: as asked for; materials: (name, digests, notes) of
    each, with one digest at least; builder: a URI; versions: of what ran; tools: what compiled."""

    kind: str
    parameters: Mapping[str, Any]
    materials: Sequence[tuple[str, Mapping[str, str], Mapping[str, Any]]]
    builder: str
    versions: Mapping[str, str]
    tools: Sequence[str] = ()


def statement_file(pack: str | os.PathLike[str]) -> Path:
    """Where the unsigned record of a pack stands."""
    return Path(f"{os.fspath(pack)}{SUFFIX}")


def statement(path: str | os.PathLike[str], origin: Origin) -> bytes:
    """The record of a pack, as it is signed. PackError as `Pack.open`."""
    with Pack.open(path) as pack:
        digest = {FILE: pack.file_digest(), TABLE: pack.digest}
    data = {
        "_type": STATEMENT,
        "subject": [{"name": Path(path).name, "digest": digest}],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": origin.kind,
                "externalParameters": dict(origin.parameters),
                _INTERNAL: {"tools": list(origin.tools)} if origin.tools else {},
                _MATERIALS: [
                    {"name": name, "digest": dict(digests), **_notes(notes)}
                    for name, digests, notes in origin.materials
                ],
            },
            "runDetails": {
                "builder": {"id": origin.builder, "version": dict(origin.versions)},
                "metadata": {},
            },
        },
    }
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"


def _notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    return {"annotations": dict(notes)} if notes else {}


def read_statement(data: bytes, where: str | os.PathLike[str]) -> dict[str, Any]:
    """A record of one pack. BadFile where it is none, or lacks what is read from it here."""
    try:
        record = json.loads(data)
        subject = record["subject"]
        right = (
            record["_type"] == STATEMENT
            and record["predicateType"] == PREDICATE
            and len(subject) == 1
            and _DIGEST.fullmatch(subject[0]["digest"][TABLE])
            and isinstance(record["predicate"]["runDetails"]["builder"]["id"], str)
            and isinstance(record["predicate"]["buildDefinition"]["externalParameters"], dict)
            and isinstance(record["predicate"]["buildDefinition"].get(_INTERNAL, {}), dict)
            and all(map(_is_material, record["predicate"]["buildDefinition"][_MATERIALS]))
        )
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise BadFile(f"not a provenance record ({error!r})", where) from error
    if not right:
        raise BadFile(f"not a provenance record of one pack; expected {PREDICATE}", where)
    return dict(record)


def _is_material(data: Any) -> bool:
    return (
        isinstance(data, dict)
        and isinstance(data.get("name"), str)
        and isinstance(data.get("digest"), dict)
        and isinstance(data.get("annotations", {}), dict)
    )


def read_record(pack: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The unsigned record beside a pack, None where there is none. BadFile."""
    file = statement_file(pack)
    return read_statement(record_bytes(file), file) if file.exists() else None


def record_bytes(file: Path) -> bytes:
    """The bytes of an unsigned record. BadFile."""
    try:
        data = read_small(file, MOST)
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror or error}", file) from error
    if len(data) > MOST:
        raise BadFile(f"more than {MOST} bytes", file)
    return data


def told(record: Mapping[str, Any]) -> list[str]:
    """What a record says, a line each."""
    definition = record["predicate"]["buildDefinition"]
    lines = [f"builder {record['predicate']['runDetails']['builder']['id']}"]
    asked = definition["externalParameters"]
    lines += [f"{name} {_word(value)}" for name, value in sorted(asked.items()) if value != ""]
    lines += [f"tool {tool}" for tool in definition.get(_INTERNAL, {}).get("tools", ())]
    for material in definition[_MATERIALS]:
        words = [material["name"], *map(str, material["digest"].values())]
        notes = sorted(material.get("annotations", {}).items())
        words += [f"({name}: {_word(value)})" for name, value in notes]
        lines.append(" ".join(words))
    return lines


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
