"""The kernels that ship with gristmill: sources, references and input generators.

Each module holds one family of kernels. `families()` gives them by name; nothing here needs a
compiler, so that an installed bundle can be checked on the machine that runs it.
"""

from __future__ import annotations

import importlib

from .family import Expected, Family

MODULES = (
    "elementwise",
    "cast",
    "transpose",
    "reduction",
    "argmax",
    "softmax",
    "normalization",
    "matmul",
    "gemv",
    "histogram",
    "scan",
    "topk",
    "gather",
    "mandelbrot",
)

__all__ = ["MODULES", "Expected", "Family", "families"]


def families() -> dict[str, Family]:
    """Every family by kernel name."""
    found: dict[str, Family] = {}
    for module in MODULES:
        for family in importlib.import_module(f".{module}", __name__).FAMILIES:
            found[family.name] = family
    return found
