"""The kernels that ship with gristmill: sources, references and input generators.

Each module holds one family of kernels and lists them in `FAMILIES`. `families()` gives them by
name; nothing here needs a compiler, so that an installed bundle can be checked on the machine that
runs it.
"""

from __future__ import annotations

import importlib
import pkgutil

from .family import Expected, Family

__all__ = ["Expected", "Family", "families"]


def families() -> dict[str, Family]:
    """Every family by kernel name, from all modules of this folder that have `FAMILIES`."""
    found: dict[str, Family] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f".{info.name}", __name__)
        for family in getattr(module, "FAMILIES", ()):
            found[family.name] = family
    return found
