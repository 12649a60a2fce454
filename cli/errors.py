"""Exit statuses, and the error that ends a command."""

from __future__ import annotations

CHECK_FAILED = 1
CANNOT = 2


class CommandError(Exception):
    """What was asked for cannot be done; the message is the line that the user sees."""
