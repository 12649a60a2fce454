"""The message of an error: what is wrong, where, what was expected and got, and what to do."""

from __future__ import annotations

import re

SHOWN = 300  # characters of what another side said: it may say anything
LONG_PATH = 400  # characters of a path
_LOGIN, _QUERY = r"(?<=://)[^\s/@]*@", r"(://[^\s?]*\?)[^\s'\")]+"  # seldom needed: not compiled


def message(what: str, where: str = "", expected: str = "", got: str = "", do: str = "") -> str:
    """One line of the parts that are stated, each as `short` has it: they may quote files that
    anybody wrote."""
    text = short(what, 900)
    if where:
        text = f"{short(where, LONG_PATH)}: {text}"
    if expected:
        text += f"; expected {short(expected)}"
    if got:
        text += f", got {short(got)}" if expected else f"; got {short(got)}"
    return f"{text}; {do}" if do else text


def short(text: str, most: int = SHOWN) -> str:
    """A text without its middle where it is longer than `most`: paths differ at their ends."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[-half:]}"


def plain(text: str, most: int = SHOWN) -> str:
    """What another side said, on one line, without the characters that steer a terminal and without
    the logins that a URL may hold."""
    shown = printable(re.sub(_QUERY, r"\1...", re.sub(_LOGIN, "", text))[: most + 1])
    return f"{shown[:most]}..." if len(shown) > most else shown


def printable(text: str, keep: str = "") -> str:
    """A text with what steers a terminal as escapes, but for the characters of `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
