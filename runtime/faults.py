"""The fault bitmap's bookkeeping: which bits belong to which launch, and what a set bit means.

Every device has one bitmap of 32-bit words. A loaded kernel owns one bit per site for its direct
launches, a recording one bit per (launch, site). Kernels set bits atomically; a bit stays set until
`synchronize` has read and cleared it, so that no replay hides the fault of an earlier one. The bits
of a closed recording are kept until then, too: its last replay may still set them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .errors import KernelFault, LimitExceeded

if TYPE_CHECKING:
    import numpy.typing as npt

    from .launch import LoadedKernel

    Words = npt.NDArray[np.uint32]
else:
    Words = np.ndarray

WORDS = 1 << 14  # of the bitmap: half a million sites


class FaultRange(NamedTuple):
    """The bits of one launch: `base` counts bits; launch is None for direct launches."""

    base: int
    kernel: LoadedKernel
    launch: int | None


class FaultTable:
    """Gives out ranges of bits, whole words at a time, and explains set bits."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[int, list[FaultRange]]] = {}  # first word -> words, ranges
        self._retired: list[list[FaultRange]] = []

    @property
    def words(self) -> int:
        """Words in use: the part of the bitmap that can hold a set bit."""
        return max((first + size for first, (size, _) in self._blocks.items()), default=0)

    def reserve(self, launches: list[tuple[LoadedKernel, int | None]]) -> list[FaultRange]:
        """One range per launch, in one block of words; empty where no kernel has sites."""
        total = sum(len(kernel.manifest.sites) for kernel, _ in launches)
        if not total:
            return []
        size = -(-total // 32)
        first = self._gap(size)
        ranges, at = [], first * 32
        for kernel, launch in launches:
            ranges.append(FaultRange(at, kernel, launch))
            at += len(kernel.manifest.sites)
        self._blocks[first] = (size, ranges)
        return ranges

    def release(self, ranges: list[FaultRange]) -> None:
        """Give back what `reserve` gave and no launch has used."""
        if ranges:
            del self._blocks[ranges[0].base // 32]

    def retire(self, ranges: list[FaultRange]) -> None:
        """Give back what `reserve` gave once the bits have been read (`settle`)."""
        self._retired.append(ranges)

    def settle(self) -> None:
        """All bits have been read and no work is pending: what was retired may be given out."""
        while self._retired:
            self.release(self._retired.pop())

    def explain(self, words: Words) -> KernelFault | None:
        """The fault behind the first set bit, or None; `words` is the bitmap's used part."""
        bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        found = [fault for bit in bits if (fault := self._at(int(bit), len(bits) - 1))]
        return found[0] if found else None

    def _at(self, bit: int, others: int) -> KernelFault | None:
        for _, ranges in self._blocks.values():
            for r in ranges:
                sites = r.kernel.manifest.sites
                if r.base <= bit < r.base + len(sites):
                    site, locs = bit - r.base, r.kernel.artifact.locs
                    loc = locs[site] if site < len(locs) else None
                    return KernelFault(r.kernel.name, r.launch, sites[site], loc, others)
        return None

    def _gap(self, size: int) -> int:
        at = 0
        for first, (used, _) in sorted(self._blocks.items()):
            if first - at >= size:
                return at
            at = first + used
        if at + size > WORDS:
            raise LimitExceeded(
                "fault sites",
                WORDS * 32,
                (at + size) * 32,
                do="close recordings that are not needed, then synchronize",
            )
        return at
