"""The oracle: a numpy interpreter of traced kernel IR, whole workgroups at once.

`run` executes a kernel as it was traced, before any pass, and reports what is wrong with it. It
shares no code with an emitter.
"""

from .launch import Argument, Bits, run
from .report import (
    InterpBudgetExceeded,
    InterpOptions,
    Problem,
    ProblemKind,
    Report,
    Stop,
)

__all__ = [
    "Argument",
    "Bits",
    "InterpBudgetExceeded",
    "InterpOptions",
    "Problem",
    "ProblemKind",
    "Report",
    "Stop",
    "run",
]
