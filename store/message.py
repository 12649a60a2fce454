"""The message of an error: what is wrong, where, what was expected and got, and what to do."""

from __future__ import annotations


def message(what: str, where: str = "", expected: str = "", got: str = "", do: str = "") -> str:
    """One line of the parts that are stated."""
    text = f"{where}: {what}" if where else what
    if expected:
        text += f"; expected {expected}"
    if got:
        text += f", got {got}" if expected else f"; got {got}"
    return f"{text}; {do}" if do else text
