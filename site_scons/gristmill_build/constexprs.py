"""Values of constexprs as configurations give them, and whose they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .document import Node

# Backends whose artifacts are made of another one's: those variants are theirs.
MADE_FROM = {"cubin": "ptx"}


class Constexprs(dict[str, Any]):
    """Values of constexprs. places: FILE:LINE where each of them stands, and all of them at ""."""

    def __init__(self, values: dict[str, Any] | None = None, places: dict[str, str] | None = None):
        super().__init__(values or {})
        self.places = places or {}

    def with_(self, other: Constexprs) -> Constexprs:
        """These, with those of `other` in their place."""
        return Constexprs({**self, **other}, {**self.places, **other.places})


Variants = dict[str, tuple[Constexprs, ...]]  # by backend, target or family, `hsaco-gfx9*`


def constexprs(node: Node, entries: dict[str, Node]) -> Constexprs:
    """The values of a mapping's entries."""
    values = {name: entry.constexpr() for name, entry in entries.items()}
    return Constexprs(values, {"": node.place, **{n: e.place for n, e in entries.items()}})


def places(target: str, keys: Iterable[str]) -> Iterator[str]:
    """Where the variants of a target may stand, the nearest first: itself, without settings, its
    families, its backend."""
    plain = target.partition(":")[0]
    families = [k for k in keys if k.endswith("*") and plain.startswith(k[:-1])]
    yield from dict.fromkeys((target, plain))
    yield from sorted(families, key=len, reverse=True)
    yield target.partition("-")[0]
