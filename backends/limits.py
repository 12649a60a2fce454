"""What one compile may take of the machine that it runs on; `ir.limits` bounds the program."""

from __future__ import annotations

DEADLINE = 300.0  # seconds
MEMORY = 8 << 30  # bytes of address space
