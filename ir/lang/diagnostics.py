"""What a wrong kernel gets: a message with its place, the source line and a caret."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..core import Loc

_WIDEST = 200  # characters of a source line that are shown


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that a diagnostic speaks of."""

    loc: Loc
    message: str
    text: str = ""

    def __str__(self) -> str:
        return _render(self.loc, "note", self.message, self.text, 1)


class Diagnostic(Exception):  # noqa: N818
    """A kernel that is not a program of the kernel language.

    file, line, column (both 1-based): where; message: what was found and what was expected;
    text: the source line; notes: further places. `str` shows all of it, with a caret.
    constexpr: the constexpr whose value is wrong, if that is what is.
    """

    def __init__(
        self,
        message: str,
        loc: Loc,
        text: str = "",
        width: int = 1,
        notes: tuple[Note, ...] = (),
        constexpr: str = "",
    ) -> None:
        super().__init__(message)
        self.constexpr = constexpr
        self.message, self.loc, self.text, self.width, self.notes = message, loc, text, width, notes

    @property
    def file(self) -> str:
        return self.loc.file

    @property
    def line(self) -> int:
        return self.loc.line

    @property
    def column(self) -> int:
        return self.loc.column

    def __str__(self) -> str:
        parts = [_render(self.loc, "error", self.message, self.text, self.width)]
        return "\n".join([*parts, *map(str, self.notes)])

    def __reduce__(self) -> tuple[Any, ...]:  # crosses process borders
        parts = (self.message, self.loc, self.text, self.width, self.notes, self.constexpr)
        return Diagnostic, parts


def _render(loc: Loc, kind: str, message: str, text: str, width: int) -> str:
    head = f"{loc}: {kind}: {message}"
    if not text.strip():
        return head
    column = loc.column
    if len(text) > _WIDEST:
        cut = max(0, column - 1 - _WIDEST // 2)
        text, column = text[cut : cut + _WIDEST], column - cut
    # Tabs are kept in the padding, so that the caret stands under its column in any terminal.
    pad = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    width = max(1, min(width, len(text) - column + 1))
    return f"{head}\n    {text}\n    {pad}{'^' * width}"


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the nearest known name, or nothing."""
    names = sorted(set(known))
    same = [other for other in names if other.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
