"""Passes over graphs, each with what it does to numbers, and how a caller bounds that."""

from .canonical import canonicalize
from .cse import merge_equal
from .dce import remove_dead
from .fold import fold_constants
from .numerics import Numerics, NumericsError
from .pipeline import EXACT, Pass, Rewritten, run

__all__ = [
    "EXACT",
    "Numerics",
    "NumericsError",
    "Pass",
    "Rewritten",
    "canonicalize",
    "fold_constants",
    "merge_equal",
    "remove_dead",
    "run",
]
