"""Which line of an author's source asked for something."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

_OWN = Path(__file__).resolve().parent
_ROOT = _OWN.parents[1]


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the source that built a graph."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def caller() -> Loc | None:
    """The line outside this package that is at work; None where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = _place(frame.f_code.co_filename)
        if file is not None:
            return Loc(file, frame.f_lineno)
        frame = frame.f_back
    return None


@cache
def _place(file: str) -> str | None:
    """None for a file of this package; relative to the project where it lies
    there: a graph is the same in every checkout."""
    path = Path(file).resolve()
    if _OWN in path.parents:
        return None
    return path.relative_to(_ROOT).as_posix() if _ROOT in path.parents else path.name
