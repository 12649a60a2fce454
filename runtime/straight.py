"""Straight-line code, written out for what is called often: a launch costs what its steps cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def written(name: str, source: str, **known: Any) -> Any:
    """The function `name` of a source text whose global names are `known`.

    Whoever writes the text puts numbers and names of its own into it, nothing out of a file.
    """
    exec(compile(source, f"<{name}, written by gristmill>", "exec"), known)
    return known[name]


def row(items: Iterable[str]) -> str:
    """A tuple, or the names that one is unpacked into."""
    return f"({''.join(f'{item}, ' for item in items)})"
