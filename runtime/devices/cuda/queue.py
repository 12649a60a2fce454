"""The one stream of a device: work in order, and waits that end.

The driver's own waits cannot be bounded, so waits ask again and again: without pause at first, then
with pauses that are a small part of the time that has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...errors import DeviceTimeout, StateError
from .api import NOT_READY, Api

SPIN_SECONDS = 200e-6
LONGEST_NAP = 1e-3
NON_BLOCKING = 1  # the stream does not wait for the legacy default stream, nor that for it
NO_TIMING = 2
CAPTURE_IMPLICIT = 906  # asked of the legacy default stream while another one is captured


class Queue:
    """busy: work may be pending that no wait has covered."""

    def __init__(self, api: Api, name: str, timeout: float) -> None:
        self.api, self.name, self.timeout = api, name, timeout
        self.stream: Any = api.call("cuStreamCreate", NON_BLOCKING)
        self.busy = False

    def event(self, timing: bool = False) -> Any:
        """A new event."""
        return self.api.call("cuEventCreate", 0 if timing else NO_TIMING)

    def mark(self, event: Any) -> None:
        """Record an event after all that was submitted."""
        self.api.call("cuEventRecord", event, self.stream)
        self.busy = True

    def wait(self, timeout: float) -> None:
        """Until all submitted work is done; DeviceTimeout, DeviceLost."""
        if self.busy:
            self._poll(self.api.drv.cuStreamQuery, self.stream, timeout)
            self.busy = False

    def wait_event(self, event: Any) -> None:
        """Until a recorded event has come."""
        self._poll(self.api.drv.cuEventQuery, event, self.timeout)

    def come(self, event: Any) -> bool:
        """Whether a recorded event has come."""
        (status,) = self.api.drv.cuEventQuery(event)
        if status and int(status) != NOT_READY:
            raise self.api.error(status, "cuEventQuery", self.name)
        return not status

    def after(self, stream: int) -> None:
        """What is submitted from now on waits for what a foreign stream holds now. StateError where
        that is being captured: waiting, this stream would be drawn into the capture."""
        self.not_captured(stream)
        event = self.event()
        try:
            self.api.call("cuEventRecord", event, stream)
            self.api.call("cuStreamWaitEvent", self.stream, event, 0)
        finally:
            self.api.call("cuEventDestroy", event)
        self.busy = True

    def before(self, stream: int) -> None:
        """What a foreign stream is given from now on waits for all that was submitted. StateError
        as for `after`."""
        self.not_captured(stream)
        event = self.event()
        try:
            self.mark(event)
            self.api.call("cuStreamWaitEvent", stream, event, 0)
        finally:
            self.api.call("cuEventDestroy", event)

    def close(self) -> None:
        """No work is pending."""
        self.api.call("cuStreamDestroy", self.stream)

    def after_context(self, context: Any) -> None:
        """What is submitted from now on waits for what every stream of the context holds now. A
        capture of any of them ends. DriverError before CUDA 12.5."""
        event = self.event()
        try:
            self.api.call("cuCtxRecordEvent", context, event)
            self.api.call("cuStreamWaitEvent", self.stream, event, 0)
        finally:
            self.api.call("cuEventDestroy", event)
        self.busy = True

    def apart(self, stream: int) -> bool:
        """Whether the default streams do not wait for a foreign stream, which exists now."""
        return bool(int(self.api.call("cuStreamGetFlags", stream)) & NON_BLOCKING)

    def drawn_in(self, stream: Any) -> bool:
        """Whether a stream is being captured, or, the default stream, one that waits for it."""
        status, *state = self.api.drv.cuStreamIsCapturing(stream)
        if status and int(status) != CAPTURE_IMPLICIT:
            raise self.api.error(status, "cuStreamIsCapturing", self.name)
        return bool(status or int(state[0]))

    def not_captured(self, stream: Any) -> None:
        """StateError where a stream is being captured."""
        if self.drawn_in(stream):
            raise StateError(
                "a stream that is being captured into a CUDA graph",
                where=self.name,
                do="share memory and order streams before the capture begins or after it ends",
            )

    def _poll(self, query: Callable[[Any], Any], what: Any, timeout: float) -> None:
        start = time.perf_counter()
        while True:
            (status,) = query(what)
            if not status:
                return
            if int(status) != NOT_READY:
                raise self.api.error(status, query.__name__, self.name)
            passed = time.perf_counter() - start
            if passed >= timeout:
                raise DeviceTimeout(
                    f"work outlasted the bound of {timeout:g} s",
                    where=self.name,
                    do="its memory is left behind; use smaller launches or a longer bound",
                )
            if passed > SPIN_SECONDS:
                time.sleep(min(passed / 16, LONGEST_NAP, timeout - passed))
