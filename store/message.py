"""The message of an error: what is wrong, where, what was expected and got, and what to do."""

from __future__ import annotations

import re

SHOWN = 300  # characters of what another side said: it may say anything
_LOGIN, _QUERY = re.compile(r"(?<=://)[^\s/@]*@"), re.compile(r"(://[^\s?]*\?)[^\s'\")]+")


def message(what: str, where: str = "", expected: str = "", got: str = "", do: str = "") -> str:
    """One line of the parts that are stated."""
    text = f"{where}: {what}" if where else what
    if expected:
        text += f"; expected {expected}"
    if got:
        text += f", got {got}" if expected else f"; got {got}"
    return f"{text}; {do}" if do else text


def plain(text: str, most: int = SHOWN) -> str:
    """What another side said, on one line, without the characters that steer a terminal and without
    the logins that a URL may hold."""
    shown = printable(_QUERY.sub(r"\1...", _LOGIN.sub("", text))[: most + 1])
    return f"{shown[:most]}..." if len(shown) > most else shown


def printable(text: str, keep: str = "") -> str:
    """A text with what steers a terminal as escapes, but for the characters of `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
