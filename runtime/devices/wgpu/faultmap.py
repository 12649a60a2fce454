"""The fault bitmap on a wgpu device and its copy that the host maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...faults import WORDS, Words
from ...launch import Command
from .buffers import COPY_TARGET, MAP_READ, WgpuBuffer
from .logical import Logical


class FaultMap:
    """The last command of every submission with fault sites copies their words to a buffer that
    can be mapped."""

    def __init__(self, logical: Logical) -> None:
        self._logical, self._lib = logical, logical.lib
        self.buffer = WgpuBuffer(logical, WORDS * 4)  # new buffers hold zeros
        self._mirror = WgpuBuffer(logical, WORDS * 4, MAP_READ | COPY_TARGET)
        self._fresh = False  # whether something was copied since the last look

    def span(self, launches: Sequence[Command]) -> tuple[int, int] | None:
        """First byte and number of bytes of the words of these launches' sites."""
        sited = [c for c in launches if c.kernel.manifest.sites]
        if not sited:
            return None
        first = min(c.fault_base for c in sited) // 32
        last = max(c.fault_base + len(c.kernel.manifest.sites) - 1 for c in sited) // 32
        return first * 4, (last - first + 1) * 4

    def copy_out(self, encoder: Any, span: tuple[int, int] | None) -> None:
        """Add the copy of these words to what is encoded."""
        if span is None:
            return
        at, size = span
        self._lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, self.buffer.handle, at, self._mirror.handle, at, size
        )
        self._fresh = True

    def take(self, words: int) -> Words:
        """The first words, cleared; no work is pending."""
        taken = np.zeros(words, np.uint32)
        if not self._fresh:
            return taken
        self._fresh = False
        mirror = self._mirror.handle
        address = self._logical.mapped(mirror, words * 4, self._logical.timeout)
        self._logical.ffi.memmove(taken.view(np.uint8).data, address, words * 4)
        self._lib.wgpuBufferUnmap(mirror)
        if taken.any():
            encoder = self._logical.encoder()
            for buffer in (self.buffer, self._mirror):
                self._lib.wgpuCommandEncoderClearBuffer(encoder, buffer.handle, 0, words * 4)
            self._logical.submit(encoder)
        return taken

    def close(self) -> None:
        """No work is pending."""
        self.buffer.destroy()
        self._mirror.destroy()
