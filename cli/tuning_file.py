"""The file of what was measured on a device: configs/tuning/DEVICE.yaml, as a build reads it."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..ir.targets import Capabilities
from ..store.files import write_atomic
from ..store.locks import take
from .errors import CommandError

FOLDER = "configs/tuning"
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NO_POINT = re.compile("-?[0-9]+e[-+][0-9]+")
_PATIENCE = 30.0  # seconds
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}  # of YAML's own
_SAME = ("kernel", "specialization", "target")  # of entries, of which the later one counts
_HEAD = """\
# By `gristmill tune` (docs/TUNING.md), or as `command` says otherwise. Times are medians in ms.
# A build takes in the winners. `matches`: patterns of the names of devices that this holds for.
"""


def default(has: Capabilities) -> str:
    """The file for a device."""
    name = f"{has.device.partition(':')[0]} {has.name}".lower()
    return f"{FOLDER}/{re.sub('[^a-z0-9]+', '-', name).strip('-')}.yaml"


def check(path: Path, has: Capabilities) -> None:
    """CommandError where a file stands that the entries of this device cannot be added to."""
    _known(path, has)


class Written(NamedTuple):
    """What a process wrote: as bytes, and what they hold."""

    blob: bytes
    known: dict[str, Any]


def write(
    path: Path,
    has: Capabilities,
    entries: Sequence[Mapping[str, Any]],
    before: Written | None = None,
) -> Written:
    """Write the entries of a device, in place of older ones of the same kernels and targets, one
    process after the other. before: what this process wrote last, which is not parsed again.
    CommandError as `check`, and where another process does not end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = take(path.with_name(f".{path.name}.lock"), _PATIENCE)
    if lock is None:
        raise CommandError(f"{path} is being written by another process for over {_PATIENCE} s")
    try:
        mine = before is not None and path.exists() and path.read_bytes() == before.blob
        known = before.known if before is not None and mine else _known(path, has)
        fresh = {tuple(entry[word] for word in _SAME) for entry in entries}
        kept = [e for e in known["kernels"] if tuple(e[word] for word in _SAME) not in fresh]
        known = {**known, "kernels": [*kept, *entries]}
        written = Written(text(known).encode(), known)
        write_atomic(path, written.blob)
        return written
    finally:
        lock.release()


def _known(path: Path, has: Capabilities) -> dict[str, Any]:
    """What the file of a device holds so far."""
    known: dict[str, Any] = {"device": has.device.partition(":")[0], "name": has.name}
    if not path.exists():
        return {**known, "kernels": []}
    old = _read(path)
    if any(old.get(word) != known[word] for word in known):
        raise CommandError(f"{path} is of {old.get('name')}, not of {has.name}; name another (-o)")
    known |= {"matches": old["matches"]} if "matches" in old else {}
    return {**known, "kernels": old["kernels"]}


def text(data: Mapping[str, Any]) -> str:
    """The file's text."""
    lines = [f"{name}: {flow(value)}" for name, value in data.items() if name != "kernels"]
    lines.append("kernels:")
    for entry in data["kernels"]:
        for number, (name, value) in enumerate(entry.items()):
            start = "  - " if number == 0 else "    "
            if name != "shapes":
                lines.append(f"{start}{name}: {flow(value)}")
                continue
            lines.append(f"{start}shapes:")
            for shape in value:
                lines.append(f"      - sizes: {flow(shape['sizes'])}")
                lines.append(f"        winner: {flow(shape['winner'])}")
                if rows := shape.get("measured"):
                    lines.append("        measured:")
                    lines += [f"          - {flow(row)}" for row in rows]
    return _HEAD + "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, datetime.date):  # a date without quotes
        return json.dumps(value.isoformat())
    text = json.dumps(value)
    # Without a point YAML takes it for text.
    return text.replace("e", ".0e") if _NO_POINT.fullmatch(text) else text


def _read(path: Path) -> dict[str, Any]:
    """What a file holds that this command has written."""
    try:
        import yaml
    except ImportError as error:
        raise CommandError(
            f"{path} exists, and without PyYAML it cannot be added to; name another file (-o)"
        ) from error
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError, RecursionError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    if isinstance(data, dict) and _is_list(data.get("kernels"), _is_entry):
        return data
    raise CommandError(f"{path} holds no measurements in the form of this command; remove it")


def _is_list(value: Any, each: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(each, value))


def _is_entry(entry: Any) -> bool:
    """Whether a file's entry is of the form that `text` writes."""
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(word), str) for word in _SAME)
        and _is_list(entry.get("shapes"), _is_shape)
    )


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, dict)
        and isinstance(shape.get("sizes"), dict)
        and isinstance(shape.get("winner"), dict)
        and _is_list(shape.get("measured") or [], lambda row: isinstance(row, dict | list))
    )
