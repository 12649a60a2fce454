"""The refusal of this route, apart from it: a build names it without loading a compiler."""

from __future__ import annotations

import re

from ..compile import CompileError

_WORDS = "no module by way of LLVM"


class RouteError(CompileError):
    """A kernel that this route has no module for. `message` holds the stage that failed and the
    first words of its tool (`describe`)."""

    @property
    def stage(self) -> str:
        """`llc`, `timeout`, `corrections`, `spirv-val` or `interface`."""
        found = re.match(rf"{_WORDS} \((.*?)\)", self.message)
        return found[1] if found else ""


def describe(stage: str, error: object) -> str:
    """The message of a `RouteError`."""
    first = str(error).strip().partition("\n")[0]
    return f"{_WORDS} ({stage}): {first}"
