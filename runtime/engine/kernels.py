"""The kernels of a bundle for a device, as a planner asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ArtifactMissing
from ..refusal import Refusal

if TYPE_CHECKING:
    from ...ir.targets import Capabilities
    from ..bundle import Bundle


class BundleKernels:
    """What a bundle has for a device that need not be at hand."""

    def __init__(self, bundle: Bundle, capabilities: Capabilities) -> None:
        self.bundle, self.capabilities = bundle, capabilities
        self._lacking: dict[tuple[str, str], str | None] = {}

    def lacking(self, kernel: str, specialization: str) -> str | None:
        """What is missing for a specialization to run on the device; None where it does."""
        key = kernel, specialization
        if key not in self._lacking:
            self._lacking[key] = self._asked(kernel, specialization)
        return self._lacking[key]

    def parameters(self, kernel: str, specialization: str) -> tuple[str, ...]:
        """The element types of what a specialization that is there takes, in order."""
        artifact = self.bundle.artifacts(kernel, specialization)[0]
        return tuple(p.dtype for p in artifact.manifest.params)

    def _asked(self, kernel: str, specialization: str) -> str | None:
        try:
            found = self.bundle.select(kernel, specialization, self.capabilities)
        except ArtifactMissing:
            return f"kernel {kernel} {specialization}"
        if not isinstance(found, Refusal):
            return None
        lacks = "; ".join(sorted({m for lack in found.lacks for m in lack.missing}))
        return f"{lacks or 'code for the device'} (kernel {kernel} {specialization})"
