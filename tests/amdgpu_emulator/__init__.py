"""Executes AMD code objects on the CPU. See README.md."""

from .code import CodeObject
from .errors import (
    CodeObjectError,
    Deadlock,
    EmulationError,
    LdsRace,
    MissingWait,
    OutOfBounds,
    RunawayError,
    UnknownInstruction,
    UnwrittenLds,
)
from .launch import Stats, dispatch
from .memory import Memory
from .semantics import load

load()

__all__ = [
    "CodeObject",
    "CodeObjectError",
    "Deadlock",
    "EmulationError",
    "LdsRace",
    "Memory",
    "MissingWait",
    "OutOfBounds",
    "RunawayError",
    "Stats",
    "UnknownInstruction",
    "UnwrittenLds",
    "dispatch",
]
