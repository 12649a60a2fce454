"""Whether what is opened must be signed."""

from __future__ import annotations

import os

from .errors import ArgumentError, Untrusted

VARIABLE = "GRISTMILL_VERIFY_PACKS"
WAYS = ("off", "require")


def required(verify: str | None) -> bool:
    """Whether signatures are: as said or by the environment. ArgumentError: no such way."""
    stated = os.environ.get(VARIABLE, "")
    for name, way in (("verify", verify), (VARIABLE, stated or None)):
        if way is not None and way not in WAYS:
            raise ArgumentError(
                "no such way to verify", where=name, expected=" or ".join(WAYS), got=repr(way)
            )
    return "require" in (verify, stated)


def unsigned_folder(file: str) -> Untrusted:
    """The refusal of a bundle that cannot be signed."""
    return Untrusted(
        "artifacts in a folder have no signature, and one is required",
        where=file,
        do="open a pack that is signed: scons pack, gristmill pack sign",
    )
