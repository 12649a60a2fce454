"""Every error of the runtime. Each says what, where, what was expected and got, and what to do.

`GristmillError` is the base. An error derived from `Poisoned` makes its device unusable: every
later call on that device fails at once with the same type, and the process lives.
"""

# ruff: noqa: N818 (these are nouns of the field; a suffix would say nothing more)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..store.message import message
from ..store.schema import ManifestError

if TYPE_CHECKING:
    from ..ir.interface import Loc
    from .refusal import Refusal


class GristmillError(Exception):
    """Base of all runtime errors; the parts of the message are attributes, which hold all of it
    where the message is cut."""

    def __init__(
        self, what: str, *, where: str = "", expected: str = "", got: str = "", do: str = ""
    ) -> None:
        self.what, self.where, self.expected, self.got, self.do = what, where, expected, got, do
        super().__init__(message(what, where, expected, got, do))


class NoDevice(GristmillError):
    """There is no such device here, or what it needs is not installed."""


class BundleError(GristmillError):
    """A bundle or an artifact of it cannot be used."""


class ArtifactCorrupt(BundleError):
    """Bytes that differ from what the bundle or the manifest says."""


class ArtifactMissing(BundleError):
    """A file or an entry that is not there."""


class ManifestInvalid(BundleError, ManifestError):
    """A bundle index or a manifest of another schema, or with missing or wrong fields."""


class VersionMismatch(BundleError):
    """A pack of another ABI than this version reads; the message names both."""


class CodecMissing(BundleError):
    """A pack whose codec is not installed."""


class Untrusted(BundleError):
    """A bundle without the signature of a trusted key, where one is required."""


class Refused(GristmillError):
    """A kernel that this device cannot run; `refusal` holds what each variant lacked."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class CompileFailed(GristmillError):
    """Code that the device's own compiler refuses. `line`: of the code, None where unknown."""

    def __init__(self, kernel: str, line: int | None, message: str, where: str = "") -> None:
        place = f", line {line}" if line else ""
        super().__init__(f"kernel {kernel}{place}: {message}", where=where, do="rebuild the bundle")
        self.kernel, self.line = kernel, line


class ArgumentError(GristmillError):
    """Arguments of a call that do not fit the kernel or the device."""


class StateError(GristmillError):
    """A call on something closed, freed, still recording or of another device."""


class OutOfMemory(GristmillError):
    """An allocation over the device's budget. `requested`, `available`: bytes."""

    def __init__(self, requested: int, available: int, where: str = "") -> None:
        super().__init__(
            f"out of memory: requested {requested} bytes, available {available}",
            where=where,
            do="free buffers or use smaller ones",
        )
        self.requested, self.available = requested, available


class LimitExceeded(GristmillError):
    """A size over a limit of the device or of the specialization."""

    def __init__(self, limit: str, maximum: int, value: int, where: str = "", do: str = "") -> None:
        super().__init__(
            f"limit {limit} exceeded",
            where=where,
            expected=f"at most {maximum}",
            got=str(value),
            do=do,
        )
        self.limit, self.maximum, self.value = limit, maximum, value


class KernelFault(GristmillError):
    """An assertion of a kernel failed (or, with checks on, an access out of bounds).

    launch: its position in the recording, None for a direct launch. site: the message. loc: the
    place in the kernel source where known. others: how many more faults were found with it.
    """

    def __init__(
        self, kernel: str, launch: int | None, site: str, loc: Loc | None = None, others: int = 0
    ) -> None:
        which = "direct launch" if launch is None else f"launch {launch} of the recording"
        more = f" (and {others} more faults)" if others else ""
        super().__init__(
            f"kernel {kernel}, {which}: {site}{more}",
            where=str(loc) if loc else "",
            do="outputs of this launch are not to be trusted",
        )
        self.kernel, self.launch, self.site, self.loc, self.others = (
            kernel,
            launch,
            site,
            loc,
            others,
        )


class Poisoned(GristmillError):
    """The device cannot be used any more; what pending work may touch is leaked on purpose."""


class DeviceLost(Poisoned):
    """The driver lost the device."""


class DeviceTimeout(Poisoned):
    """A wait outlasted its bound."""


class SubmissionFailed(Poisoned):
    """The driver did not take or finish work, or a worker died."""


class DriverError(GristmillError):
    """A driver call failed without losing the device. `code`: the driver's status."""

    def __init__(self, call: str, code: int, name: str, where: str = "", do: str = "") -> None:
        super().__init__(f"{call} failed with {name} ({code})", where=where, do=do)
        self.call, self.code = call, code


def expect(value: Any, kind: type, where: str) -> None:
    """ArgumentError unless the value is of a kind."""
    if not isinstance(value, kind):
        raise ArgumentError(
            "wrong type", where=where, expected=f"a {kind.__name__}", got=named(value)
        )


def named(value: Any) -> str:
    """A value of the wrong kind, as messages show it."""
    return f"{type(value).__name__} {value!r:.40}"
