"""The intrinsics that every SIMT target of LLVM selects, as regular expressions."""

from __future__ import annotations

import re

_FLOAT = "floor ceil trunc roundeven sqrt fabs copysign fma minimumnum maximumnum"
_INT = "abs smin smax umin umax ctpop ctlz cttz bitreverse"

COMMON = (
    rf"llvm\.(?:{_FLOAT.replace(' ', '|')})\.f(?:16|32|64)",
    rf"llvm\.(?:{_INT.replace(' ', '|')})\.i(?:8|16|32|64)",
    r"llvm\.fpto[su]i\.sat\.i(?:32|64)\.f(?:32|64)",
)


def alternatives(name: str) -> str:
    """`a.{b,c}` as a regular expression."""
    pattern = re.escape(name)
    return re.sub(r"\\\{(.*?)\\\}", lambda m: f"(?:{m[1].replace(',', '|')})", pattern)
