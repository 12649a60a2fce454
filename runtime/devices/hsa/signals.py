"""Signals: numbers that packets and copies count down when they are done, and waits that end.

A wait is cut into slices, between which an interrupt of Python is seen, and what went wrong.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

from ...errors import DeviceLost, DeviceTimeout
from .api import Api

_LESS, _BLOCKED, _ACTIVE = 2, 0, 1  # hsa_signal_condition_t, hsa_wait_state_t
_FREQUENCY = 3  # hsa_system_info_t
SPIN_SECONDS, SLICE_SECONDS = 100e-6, 5e-3


class Signals:
    """All signals of a device. Those for one use begin with 1 and are done at 0."""

    def __init__(self, api: Api, name: str) -> None:
        self._api, self.name = api, name
        self._free: list[int] = []
        self._all: set[int] = set()
        self._load = api.fn["hsa_signal_load_scacquire"]
        self._store = api.fn["hsa_signal_store_relaxed"]
        self._wait = api.fn["hsa_signal_wait_scacquire"]
        self.frequency = int(api.system(_FREQUENCY, ctypes.c_uint64).value)

    def make(self, value: int) -> int:
        """A signal of its own with a value."""
        signal = self._api.made("hsa_signal_create", value, 0, None, where=self.name)
        self._all.add(signal)
        return signal

    def take(self) -> int:
        """A signal for one use."""
        if not self._free:
            return self.make(1)
        signal = self._free.pop()
        self._store(signal, 1)
        return signal

    def give(self, signal: int) -> None:
        """Take back a signal for one use, which nobody waits for or counts down any more."""
        self._free.append(signal)

    def drop(self, signal: int) -> None:
        """Destroy a signal of its own."""
        self._all.discard(signal)
        self._api.call("hsa_signal_destroy", signal)

    def done(self, signal: int) -> bool:
        """Whether what a signal for one use stands for is done; DeviceLost where it failed."""
        value = self._load(signal)
        if value < 0:
            raise DeviceLost("a copy failed on the device", where=self.name, do="open it again")
        return value == 0

    def until(self, signal: int, below: int, timeout: float, check: Callable[[], None]) -> None:
        """Until a signal's value is less than `below`; DeviceTimeout. check: called now and then,
        raises where waiting is in vain."""
        begin, spent = time.perf_counter(), 0.0
        length, state = SPIN_SECONDS, _ACTIVE
        while True:
            ticks = int(max(0.0, min(length, timeout - spent)) * self.frequency)
            if self._wait(signal, _LESS, below, ticks, state) < below:
                return
            check()
            spent = time.perf_counter() - begin
            if spent >= timeout:
                raise DeviceTimeout(
                    f"work outlasted the bound of {timeout:g} s",
                    where=self.name,
                    do="its memory is left behind; use smaller launches or a longer bound",
                )
            length, state = SLICE_SECONDS, _BLOCKED

    def close(self) -> None:
        """No work is pending."""
        while self._all:
            self.drop(self._all.pop())
        self._free.clear()
