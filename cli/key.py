"""`gristmill key`: keys for signing packs, one file each."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from ..store.trust.keys import Key, new_key, read_key, write_key, written
from .errors import CommandError
from .table import table

_MOST_DAYS = 36500


def key(arguments: Namespace) -> int:
    """The command. CommandError, TrustError."""
    if arguments.job == "show":
        keys = [read_key(file) for file in arguments.files]
        return _tell(keys, arguments.json)
    name = arguments.name
    if not name.isprintable() or not name or "/" in name or name.startswith("."):
        raise CommandError(f"{name!r} is no name for a key; expected one that a file can have")
    if arguments.days > _MOST_DAYS:
        raise CommandError(f"a key is valid for at most {_MOST_DAYS} days, got {arguments.days}")
    made = new_key(name, arguments.days)
    private = Path(arguments.output) / f"{name}.key"
    public = private.with_name(f"{name}.pub")
    if private.exists() or public.exists():
        raise CommandError(f"{private} or {public} exists; choose another name or remove them")
    write_key(private, made)
    write_key(public, made)
    if not arguments.json:
        print(f"{private}: for its owner alone\n{public}: for whoever verifies")
    return _tell([made], arguments.json)


def _tell(keys: list[Key], as_json: bool) -> int:
    rows = [
        {
            "name": key.name,
            "id": key.id,
            "kind": "public" if key.private is None else "private",
            "not_before": written(key.not_before),
            "not_after": written(key.not_after),
        }
        for key in keys
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        print(table([["name", "kind", "valid from", "to", "id"], *_cells(rows)]))
    return 0


def _cells(rows: list[dict[str, str]]) -> list[list[str]]:
    return [[row[n] for n in ("name", "kind", "not_before", "not_after", "id")] for row in rows]
