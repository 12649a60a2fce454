"""Action keys in words: which inputs make one up, and which of two differ.

An action is read from its canonical text (`key`), which stores keep. What stands there as a digest
is looked up: the sources of a compiler as the action of that key, kernel IR as a content. Where
that is not at hand, the digest is shown instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .entries import is_digest
from .key import Action, parsed

Look = Callable[[str], bytes | None]
_LONGEST = 60  # characters of a line of kernel IR that are shown
_NAMES = {"ir": "kernel IR", "ptx": "PTX"}  # of fields, where the word says less
_MAPPINGS = ("options", "specialization", "sources")


def read(text: bytes) -> Action:
    """The action of a text, which anybody may have written. ValueError where it is of another form
    than `key` gives the actions of this version."""
    action = parsed(text)
    for name, value in action.fields.items():
        word = value.decode()
        try:
            data = json.loads(value) if name in (*_MAPPINGS, "tools") else None
        except RecursionError as error:
            raise ValueError(f"field {name} of an action is nested too deep") from error
        fine = word.isprintable()
        if name in _MAPPINGS:
            fine &= isinstance(data, dict)
        elif name == "tools":
            fine &= isinstance(data, list) and all(isinstance(tool, str) for tool in data)
        elif name == "compiler" or name in _NAMES:
            fine &= is_digest(word)
        if not fine:
            raise ValueError(f"field {name} of an action is of another form")
    return action


@dataclass(frozen=True)
class Explainer:
    """What looks things up: the text of the action of a key, and the content of a digest."""

    action: Look
    content: Look

    def inputs(self, action: Action) -> list[tuple[str, str]]:
        """The inputs of an action: name and what it is, in words."""
        rows = []
        for name, value in _ordered(action.fields):
            if name in ("options", "specialization"):
                rows += [(f"{name}: {k}", encoded) for k, encoded in _pairs(value).items()]
            elif name == "sources":
                rows += [(f"source {k}", f"sha256 {v}") for k, v in _pairs(value).items()]
            elif name == "tools":
                rows.append((name, ", ".join(json.loads(value)) or "none that count"))
            elif name == "compiler":
                rows.append((name, self._compiler(value.decode())))
            elif name in _NAMES:
                rows.append((_NAMES[name], self._content(value.decode())))
            else:
                rows.append((name, value.decode()))
        return rows

    def differences(self, a: Action, b: Action) -> list[str]:
        """What differs between two actions, a line each; none where their keys are equal."""
        found: list[str] = []
        for name, _ in _ordered({**a.fields, **b.fields}):
            x, y = a.fields.get(name), b.fields.get(name)
            if x == y:
                continue
            if x is None or y is None:
                which = "B" if x is None else "A"
                found.append(f"{_NAMES.get(name, name)}: an input of {which} only")
            elif name in _MAPPINGS:
                found += _differ(name.removesuffix("s"), _pairs(x), _pairs(y))
            elif name == "tools":
                found += _differ("tool", _versions(x), _versions(y))
            elif name == "compiler":
                found += self._compilers(x.decode(), y.decode())
            elif name in _NAMES:
                found.append(self._texts(_NAMES[name], x.decode(), y.decode()))
            else:
                found.append(f"{name}: {x.decode()} in A, {y.decode()} in B")
        return found

    def _compiler(self, key: str) -> str:
        action = self._parsed(key)
        if action is None:
            return f"key {key} (its sources are not in the store)"
        count = len(_pairs(action.fields["sources"]))
        return f"{action.fields['stage'].decode()}, {count} source files, key {key}"

    def _compilers(self, a: str, b: str) -> list[str]:
        x, y = self._parsed(a), self._parsed(b)
        if x is None or y is None:
            return [f"compiler: {a} in A, {b} in B (the sources of one are not in the store)"]
        stages = [one.fields["stage"].decode() for one in (x, y)]
        if stages[0] != stages[1]:
            return [f"compiler: {stages[0]} in A, {stages[1]} in B"]
        sources = [_pairs(one.fields["sources"]) for one in (x, y)]
        return _differ(f"compiler ({stages[0]}), source", *sources)

    def _parsed(self, key: str) -> Action | None:
        """The compiler of a key, where its sources are known in this version's form."""
        try:
            action = read(self.action(key) or b"")
        except ValueError:
            return None
        return action if {"stage", "sources"} <= action.fields.keys() else None

    def _content(self, digest: str) -> str:
        text = self.content(digest)
        first = "" if text is None else text.partition(b"\n")[0].decode(errors="replace")
        return f"{first:.{_LONGEST}} (sha256 {digest})" if first else f"sha256 {digest}"

    def _texts(self, name: str, a: str, b: str) -> str:
        """Where two texts differ first."""
        x, y = self.content(a), self.content(b)
        if x is None or y is None:
            return f"{name}: sha256 {a} in A, {b} in B (the text of one is not in the store)"
        lines = [text.decode(errors="replace").split("\n") for text in (x, y)]
        pairs = zip_longest(*lines, fillvalue="no line")
        for number, (one, other) in enumerate(pairs, 1):
            if one != other:
                one, other = (f"{line.strip()!r:.{_LONGEST}}" for line in (one, other))
                return f"{name}: first at line {number}: {one} in A, {other} in B"
        return f"{name}: sha256 {a} in A, {b} in B (of bytes that are no text)"


def _ordered(fields: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The fields of an action, what it does first."""
    return sorted(fields.items(), key=lambda field: (field[0] != "action", field[0]))


def _pairs(value: bytes) -> dict[str, str]:
    """A mapping of JSON with its values as text, nested ones by `NAME.NAME`."""
    found: dict[str, str] = {}

    def walk(prefix: str, part: Any) -> None:
        if isinstance(part, dict) and part:
            for name, inner in sorted(part.items()):
                walk(f"{prefix}.{name}" if prefix else name, inner)
        else:
            found[prefix] = part if isinstance(part, str) else json.dumps(part)

    walk("", json.loads(value))
    return found


def _versions(value: bytes) -> dict[str, str]:
    """Tools by name: `NAME VERSION...`."""
    split = (tool.partition(" ") for tool in json.loads(value))
    return {name: version or "of no stated version" for name, _, version in split}


def _differ(kind: str, a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    found = []
    for name in sorted(a.keys() | b.keys()):
        x, y = a.get(name), b.get(name)
        if x is None or y is None:
            found.append(f"{kind} {name}: only in {'B' if x is None else 'A'}")
        elif x != y and "source" in kind:
            found.append(f"{kind} {name}: other contents")
        elif x != y:
            found.append(f"{kind} {name}: {x} in A, {y} in B")
    return found
