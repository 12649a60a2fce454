"""Why a pack is not trusted."""

# ruff: noqa: N818 (these are nouns of the field; a suffix would say nothing more)

from __future__ import annotations

import os

from ..message import message


class TrustError(ValueError):
    """Base: `where`, what is wrong, what to do."""

    def __init__(self, what: str, where: str | os.PathLike[str] = "", do: str = "") -> None:
        self.what, self.where, self.do = what, os.fspath(where), do
        super().__init__(message(what, self.where, do=do))


class TrustMissing(TrustError):
    """Signatures cannot be made or checked here: a package or the keys are missing."""


class Unsigned(TrustError):
    """There is no signature."""


class ForeignSignature(TrustError):
    """Signed, but by none of the trusted keys."""


class ForgedSignature(TrustError):
    """A signature that is not of its key, or is of another pack."""


class KeyExpired(TrustError):
    """A key outside of the time for which it is valid."""


class BadFile(TrustError):
    """A file of a key, a signature or a provenance record that is none."""
