"""`gristmill explain`: what makes up the key of an artifact, and why two have different ones."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path

from .. import runtime
from ..runtime.packs import SUFFIX
from ..store.explain import Explainer, read
from ..store.interface import StoreError
from ..store.key import Action
from ..store.local import LocalStore, default_root
from ..store.manifest import Manifest
from ..store.message import printable
from ..store.opening import open_store
from .errors import CommandError
from .table import table

_KEY = re.compile("[0-9a-f]{64}")


def explain(first: str, second: str | None, cache: str, as_json: bool) -> int:
    """Explain a key, or compare two: 0 where they are equal, 1 where they are not."""
    try:
        store = open_store(cache, "read" if cache else "off", warn=_warn)
        local = LocalStore(default_root())
    except StoreError as error:
        raise CommandError(str(error)) from error
    explainer = Explainer(store.action, local.content)
    with contextlib.closing(store):
        a = _action(explainer, first, str(local.root))
        if second is None:
            return _one(explainer, first, a, as_json)
        b = _action(explainer, second, str(local.root))
        return _two(explainer, (first, a), (second, b), as_json)


def _warn(text: str) -> None:
    print(f"gristmill explain: warning: {text}", file=sys.stderr)


def _one(explainer: Explainer, place: str, action: Action, as_json: bool) -> int:
    inputs = explainer.inputs(action)
    if as_json:
        print(json.dumps({"key": action.key, "inputs": dict(inputs)}, indent=2))
    else:
        print(f"{place}\nkey {action.key} is the sha256 of:\n")
        print(table([("input", "is"), *inputs]))
    return 0


def _two(
    explainer: Explainer, first: tuple[str, Action], second: tuple[str, Action], as_json: bool
) -> int:
    found = explainer.differences(first[1], second[1])
    if as_json:
        keys = [first[1].key, second[1].key]
        print(json.dumps({"keys": keys, "differences": found}, indent=2))
        return min(len(found), 1)
    for word, (place, action) in zip("AB", (first, second), strict=True):
        print(f"{word}: {place}, key {action.key}")
    told = "\n".join(map(printable, found))
    print(told or "the keys are equal: no input differs")
    return min(len(found), 1)


def _action(explainer: Explainer, place: str, root: str) -> Action:
    key = place if _KEY.fullmatch(place) else _manifest(place).key
    text = explainer.action(key)
    if text is None:
        raise CommandError(
            f"{place}: the inputs of key {key} are not in the store at {root}; build it on this "
            "machine, or name the cache that has it: --cache URL"
        )
    try:
        return read(text)
    except ValueError as error:
        raise CommandError(f"{place}: {error}; another version of gristmill made it") from error


def _manifest(place: str) -> Manifest:
    """The manifest of an artifact: a file with the manifest beside it, or one in a pack."""
    path = Path(place)
    if pack := next((p for p in path.parents if p.suffix == SUFFIX and p.is_file()), None):
        found = [a for a in runtime.open_bundle(pack) if a.file == path]
        if not found:
            raise CommandError(f"{pack} has no {path.relative_to(pack)}; see gristmill pack list")
        return found[0].manifest
    file = path.with_suffix(".json") if path.name else path
    if path.suffix == ".json" or not file.is_file():
        raise CommandError(
            f"{place}: no artifact (expected a file with a manifest {file.name} beside it, a pack "
            "followed by / and the artifact's name in it, or a key of 64 hexadecimal digits)"
        )
    return Manifest.from_json(file.read_bytes(), str(file))
