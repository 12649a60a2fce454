"""Which package compiles for a target, told without importing any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def stage(target: str, options: Mapping[str, Any]) -> str:
    """The package in `backends` that compiles for a target, by the `Options` that are not usual."""
    name = target.partition("-")[0]
    return f"{name}_llc" if name == "spirv" and options.get("spirv_codegen") == "llc" else name
