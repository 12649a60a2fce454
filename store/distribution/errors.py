"""Every error of getting packs to where they are used and back. Each says what, where, what was
expected and got, and what to do."""

# ruff: noqa: N818 (these are nouns of the field; a suffix would say nothing more)

from __future__ import annotations

from ..message import message, plain


class DistributionError(Exception):
    """Base; the parts of the message are attributes."""

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", got: str = "", do: str = ""
    ) -> None:
        got = plain(got)
        self.what, self.where, self.expected, self.got, self.do = what, where, expected, got, do
        super().__init__(message(what, where, expected, got, do))


class ExtraMissing(DistributionError):
    """A Python package that this needs is not installed."""


class ReferenceInvalid(DistributionError):
    """What was given is no reference of a registry: HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]."""


class RegistryUnreachable(DistributionError):
    """No answer, or not all of one: no connection, a connection that was cut, too slow."""


class RegistryRefused(DistributionError):
    """The registry answered that it will not. status: of HTTP."""

    def __init__(
        self, what: str, status: int, *, where: str = "", got: str = "", do: str = ""
    ) -> None:
        super().__init__(what, where=where, got=got, do=do)
        self.status = status


class ContentMismatch(DistributionError):
    """Bytes that are not those which their digest or size promises."""


class ArtifactInvalid(DistributionError):
    """What the reference names is no set of packs as this version writes them."""


class TargetMissing(DistributionError):
    """No pack for a target that was asked for; the message names those that there are."""


class AbiMismatch(DistributionError):
    """Packs of another ABI than this version of gristmill loads. pack, runtime: both numbers."""

    def __init__(self, where: str, pack: object, runtime: object, made_by: str = "") -> None:
        by = f" (made by gristmill {made_by})" if made_by else ""
        super().__init__(
            f"a pack of ABI {pack}{by}, and this gristmill loads ABI {runtime}",
            where=where,
            do="install gristmill and kernels of one version, or build the packs again",
        )
        self.pack, self.runtime = pack, runtime
