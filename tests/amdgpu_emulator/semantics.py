"""Imports every file that registers semantics. A new file is a new line here."""

from __future__ import annotations

import importlib

FILES = ("control", "salu", "smem", "valu_integer", "valu_float", "carry", "compare", "vmem")
FILES += ("conversions", "division", "packed16", "dual", "ds", "atomics")
FILES += ("scalar_float", "relative")

# Other lanes, sub-dword forms, matrices, eight-bit floats.
FILES += ("dpp", "sdwa", "crosslane", "matrix_instructions", "dots", "conversions8", "packed32")
FILES += ("buffer_scratch", "gfx9_alu")


def load() -> None:
    for name in FILES:
        importlib.import_module(f"{__package__}.{name}")
