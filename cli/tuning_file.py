"""The file of what was measured on a device: configs/tuning/DEVICE.yaml, as a build reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..ir.targets import Capabilities
from ..store.files import write_atomic
from .errors import CommandError

FOLDER = "configs/tuning"
_PLAIN = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}  # of YAML's own
_SAME = ("kernel", "specialization", "target")  # of entries, of which the later one counts
_HEAD = """\
# Written by `gristmill tune` (docs/TUNING.md): medians in ms of rounds in which all took turns.
# A build takes in the winners. `matches`: patterns of the names of devices that this holds for.
"""


def default(has: Capabilities) -> str:
    """The file for a device."""
    name = f"{has.device.partition(':')[0]} {has.name}".lower()
    return f"{FOLDER}/{re.sub('[^a-z0-9]+', '-', name).strip('-')}.yaml"


def write(path: Path, has: Capabilities, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write the entries of a device, in place of older ones of the same kernels and targets.
    CommandError where the file is of another device, or is none."""
    device = has.device.partition(":")[0]
    known: dict[str, Any] = {"device": device, "name": has.name}
    old = _read(path) if path.exists() else {**known, "kernels": []}
    if (old.get("device"), old.get("name")) != (device, has.name):
        raise CommandError(f"{path} is of {old.get('name')}, not of {has.name}; name another (-o)")
    fresh = {tuple(entry[word] for word in _SAME) for entry in entries}
    kept = [e for e in old["kernels"] if tuple(e[word] for word in _SAME) not in fresh]
    known |= {"matches": old["matches"]} if "matches" in old else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text({**known, "kernels": [*kept, *entries]}).encode())


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
                lines.append("        measured:")
                lines += [f"          - {flow(row)}" for row in shape.get("measured", ())]
    return _HEAD + "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


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
        if all(all(word in entry for word in _SAME) for entry in data["kernels"]):
            return dict(data)
    except (yaml.YAMLError, ValueError, TypeError, LookupError):
        pass  # told below
    raise CommandError(f"{path} holds no measurements in the form of this command; remove it")
