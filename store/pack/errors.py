"""Why a pack cannot be used. Every error says what, where, expected, got and what to do."""

# ruff: noqa: N818 (these are nouns of the field; a suffix would say nothing more)

from __future__ import annotations

import os

from ..message import message


class PackError(ValueError):
    """Base; the parts of the message are attributes."""

    def __init__(
        self,
        what: str,
        *,
        where: str | os.PathLike[str] = "",
        expected: str = "",
        got: str = "",
        do: str = "",
    ) -> None:
        self.what, self.where, self.expected, self.got, self.do = (
            what,
            os.fspath(where),
            expected,
            got,
            do,
        )
        super().__init__(message(what, self.where, expected, got, do))


class PackMissing(PackError):
    """A file or an entry that is not there or cannot be read."""


class NotAPack(PackError):
    """A file of some other kind."""


class PackVersion(PackError):
    """A pack of another ABI. `found`, `known`: its number and the one that this version reads."""

    def __init__(self, found: int, known: int, where: str | os.PathLike[str]) -> None:
        do = "install a newer gristmill" if found > known else "pack the artifacts again"
        super().__init__(
            "pack of another ABI", where=where, expected=f"ABI {known}", got=f"ABI {found}", do=do
        )
        self.found, self.known = found, known


class PackCorrupt(PackError):
    """Bytes that differ from what a digest says, or that no writer of packs writes."""


class CodecMissing(PackError):
    """Blobs compressed by a codec whose package is not installed."""


class PackConflict(PackError):
    """Entries that cannot be in one pack: two of one name, or a name that is none."""
