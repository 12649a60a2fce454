"""The tables of docs/RUNTIME.md, from the code: `python tests/runtime_page.py` renews them.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, as in docs/LANGUAGE.md.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from gristmill import runtime
from gristmill.runtime import errors
from language_page import BLOCK

PAGE = Path(__file__).parents[1] / "docs/RUNTIME.md"

CLASSES: dict[str, type] = {
    "bundle": runtime.Bundle,
    "device": runtime.Device,
    "kernel": runtime.LoadedKernel,
    "buffer": runtime.Buffer,
    "recording": runtime.Recording,
    "slot": runtime.Slot,
}
INTERNAL = {"place", "launch_grid", "check_turns"}  # what the runtime itself calls of them


def _first(doc: str | None) -> str:
    """The first paragraph, on one line."""
    return " ".join(inspect.cleandoc(doc or "").split("\n\n")[0].split()).replace("|", " or ")


def _call(name: str, member: Any) -> str:
    signature = inspect.signature(member)
    params = [p.replace(annotation=p.empty) for p in list(signature.parameters.values())[1:]]
    text = str(inspect.Signature(params))
    return text if name == "__call__" else f".{name}{text}"


def members(kind: type) -> dict[str, str]:
    """What a class itself offers to callers, by name: how it is called and what it does."""
    found = {}
    for name, member in vars(kind).items():
        public = name == "__call__" or not (name.startswith("_") or name in INTERNAL)
        if public and inspect.isfunction(member):
            found[name] = f"| `{_call(name, member)}` | {_first(member.__doc__)} |"
    return found


def error_rows() -> list[str]:
    """A row for each type, base types first."""
    rows = []
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, runtime.GristmillError):
            above = kind.__mro__[1].__name__
            rows.append(f"| `{name}` | `{above}` | {_first(kind.__doc__)} |")
    return rows


def tables() -> dict[str, str]:
    """Every table by name."""
    found = {
        name: "\n".join(["| call | does |", "|---|---|", *members(kind).values()]) + "\n"
        for name, kind in CLASSES.items()
    }
    head = ["| error | is a | says |", "|---|---|---|"]
    return {**found, "errors": "\n".join([*head, *error_rows()]) + "\n"}


def renewed(page: str) -> str:
    """The page with its tables as the code has them. KeyError for a table of another name."""
    found = tables()
    return BLOCK.sub(lambda block: block[1] + found[block[2]] + block[4], page)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
