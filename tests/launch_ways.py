"""Which way a device's launches take: the direct one, or the usual one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill import runtime
from gristmill.runtime.launch import LoadedKernel


class Ways:
    """A device, and how many launches have taken the usual way."""

    def __init__(self, device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.device, self.usual = device, 0
        submit = device._submit

        def counted(command: Any) -> None:
            self.usual += 1
            submit(command)

        monkeypatch.setattr(device, "_submit", counted)

    def directly(self, kernel: LoadedKernel, *args: Any, grid: Any = None) -> None:
        """Launch, which must take the direct way."""
        before = self.usual
        self.device.launch(kernel, *args, grid=grid)
        assert self.usual == before

    def usually(self, kernel: LoadedKernel, *args: Any, grid: Any = None) -> None:
        """Launch, which must take the usual way."""
        before = self.usual
        self.device.launch(kernel, *args, grid=grid)
        assert self.usual == before + 1

    def floats(self, *values: float, count: int = 100) -> list[runtime.Buffer]:
        return [self.device.upload(np.full(count, v, np.float32)) for v in values]
