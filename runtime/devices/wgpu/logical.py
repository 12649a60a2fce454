"""A WGPUDevice and its queue: what it tells through callbacks, bounded waits, submissions.

wgpu-native ends the process where a submission fails, and where a device is lost while it waits.
So a submission is only made where nothing was told, and a wait never blocks inside the library.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...errors import DeviceLost, DeviceTimeout, DriverError, NoDevice, SubmissionFailed
from .adapters import TIMESTAMPS, Adapter

OUT_OF_MEMORY = 3  # of WGPUErrorType
_ERRORS = {2: "a validation error", 3: "out of memory", 4: "an internal error"}
_LOST = "device is lost"
_ANY_TIME = 3  # of WGPUCallbackMode
_READ = 1  # of WGPUMapMode
SPIN_SECONDS = 60e-6  # before the first pause, on a GPU
_PAUSES = 20e-6, 1e-3  # at least and at most
_SHARE = 64  # a pause lasts this part of what was waited so far
MARK_EVERY = 32  # submissions until the queue is asked to tell of them
MOST_MARKS = 8  # such tellings that have not come yet


class Logical:
    """See the module. period: nanoseconds of a timestamp tick, 0 without them."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter, self.api = adapter, adapter.api
        self.lib, self.ffi = self.api.lib, self.api.ffi
        self.lost = ""
        self.errors: list[tuple[int, str]] = []
        self._unmarked = self._marks = 0
        self._mapped = 0
        self._listen()
        self.handle = self._create()
        self.queue = self.lib.wgpuDeviceGetQueue(self.handle)
        timed = TIMESTAMPS in adapter.features
        self.period = float(self.lib.wgpuQueueGetTimestampPeriod(self.queue)) if timed else 0.0

    def _listen(self) -> None:
        """The callbacks: each only takes a note, as it runs inside a call of the library."""
        ffi, text = self.ffi, self.api.text

        def error(device: Any, kind: int, message: Any, _1: Any, _2: Any) -> None:
            what = text(message)
            if _LOST in what:  # some calls tell it as a validation error
                self.lost = self.lost or what
            else:
                self.errors.append((int(kind), what))

        def lost(device: Any, reason: int, message: Any, _1: Any, _2: Any) -> None:
            self.lost = self.lost or text(message) or "for no reason told"

        def done(status: int, message: Any, _1: Any, _2: Any) -> None:
            self._marks -= 1

        def mapped(status: int, message: Any, _1: Any, _2: Any) -> None:
            self._mapped = int(status)

        self._error = ffi.callback("WGPUUncapturedErrorCallback", error)
        self._gone = ffi.callback("WGPUDeviceLostCallback", lost)
        self._keep = (  # a struct that holds a callback does not keep it alive
            ffi.callback("WGPUQueueWorkDoneCallback", done),
            ffi.callback("WGPUBufferMapCallback", mapped),
        )
        self._done = self.api.struct(
            "WGPUQueueWorkDoneCallbackInfo", mode=_ANY_TIME, callback=self._keep[0]
        )
        self._map = self.api.struct(
            "WGPUBufferMapCallbackInfo", mode=_ANY_TIME, callback=self._keep[1]
        )

    def _create(self) -> Any:
        api, ffi, adapter = self.api, self.ffi, self.adapter
        wanted = [getattr(self.lib, name) for name in adapter.features]
        features = ffi.new("WGPUFeatureName[]", wanted)
        descriptor = api.struct(
            "WGPUDeviceDescriptor",
            requiredFeatureCount=len(wanted),
            requiredFeatures=features,
            requiredLimits=adapter.limits,
        )
        descriptor.deviceLostCallbackInfo.mode = _ANY_TIME
        descriptor.deviceLostCallbackInfo.callback = self._gone
        descriptor.uncapturedErrorCallbackInfo.callback = self._error
        made: list[tuple[Any, str]] = []

        def answer(status: int, device: Any, message: Any, _1: Any, _2: Any) -> None:
            made.append((device, api.text(message)))

        callback = ffi.callback("WGPURequestDeviceCallback", answer)
        info = api.struct("WGPURequestDeviceCallbackInfo", mode=_ANY_TIME, callback=callback)
        self.lib.wgpuAdapterRequestDevice(adapter.handle, descriptor, info[0])
        handle, why = made[0] if made else (ffi.NULL, "no answer")
        if not handle:
            raise NoDevice(f"the device cannot be opened: {why.strip()}", where=adapter.name)
        return handle

    def check(self, call: str, where: str = "") -> None:
        """DeviceLost or DriverError where the library told of something since the last check."""
        if not self.errors and not self.lost:
            return
        errors, self.errors = list(self.errors), []
        where = where or self.adapter.name
        if self.lost:
            raise DeviceLost(f"the device was lost: {plain(self.lost)}", where=where)
        kind, message = errors[0]
        name = f"{_ERRORS.get(kind, 'an unknown error')}: {plain(message)}"
        raise DriverError(call, kind, name, where)

    # submissions

    def encoder(self) -> Any:
        """A command encoder; DeviceLost where the device is known to be lost then."""
        made = self.lib.wgpuDeviceCreateCommandEncoder(self.handle, self.ffi.NULL)
        if self.lost or self.errors:
            self._refuse("wgpuDeviceCreateCommandEncoder")
        return made

    def submit(self, encoder: Any) -> None:
        """Submit what was encoded; SubmissionFailed where anything in it was wrong."""
        lib = self.lib
        commands = lib.wgpuCommandEncoderFinish(encoder, self.ffi.NULL)
        lib.wgpuCommandEncoderRelease(encoder)
        if self.lost or self.errors:
            lib.wgpuCommandBufferRelease(commands)
            self._refuse("wgpuCommandEncoderFinish")
        lib.wgpuQueueSubmit(self.queue, 1, self.ffi.new("WGPUCommandBuffer[1]", [commands]))
        lib.wgpuCommandBufferRelease(commands)
        self._unmarked += 1
        if self._unmarked >= MARK_EVERY:
            self._mark()

    def flush(self) -> None:
        """Submit what was written to buffers so far."""
        self.submit(self.encoder())

    def _refuse(self, call: str) -> None:
        try:
            self.check(call)
        except DriverError as error:
            raise SubmissionFailed(str(error)) from error

    def _mark(self) -> None:
        """Have the queue tell of what was submitted so far; wait where much is unfinished."""
        self._unmarked = 0
        self._marks += 1
        self.lib.wgpuQueueOnSubmittedWorkDone(self.queue, self._done[0])
        if self._marks > MOST_MARKS:
            self._until(lambda: self.poll() or self._marks <= MOST_MARKS // 2, self.timeout)

    # waits

    timeout = 600.0

    def poll(self) -> bool:
        """Let callbacks run; whether all submitted work is done."""
        # The library answers with one byte, its header has the whole word: the rest is anything.
        done = bool(self.lib.wgpuDevicePoll(self.handle, 0, self.ffi.NULL) & 0xFF)
        if self.lost:
            self.check("wgpuDevicePoll")
        return done

    def wait(self, timeout: float) -> None:
        """Until all submitted work is done; DeviceTimeout, DeviceLost."""
        if self.lost:
            self.check("wgpuDevicePoll")
        self._until(self.poll, timeout)
        if self.errors:
            self._refuse("wgpuDevicePoll")

    def mapped(self, buffer: Any, nbytes: int, timeout: float) -> Any:
        """Where the first bytes of a buffer are mapped, once all work on it is done."""
        self._mapped = 0
        self.lib.wgpuBufferMapAsync(buffer, _READ, 0, nbytes, self._map[0])
        if self.lost or self.errors:
            self._refuse("wgpuBufferMapAsync")
        # The queue may be empty before the buffer is mapped.
        self._until(self._is_mapped, timeout)
        if self._mapped != 1:
            raise DriverError("wgpuBufferMapAsync", self._mapped, "no mapping", self.adapter.name)
        return self.lib.wgpuBufferGetConstMappedRange(buffer, 0, nbytes)

    def _is_mapped(self) -> bool:
        self.poll()
        return self._mapped != 0

    def _until(self, done: Callable[[], bool], timeout: float) -> None:
        """Ask until something is done, with pauses that grow."""
        begin = time.perf_counter()
        spin = 0.0 if self.adapter.software else SPIN_SECONDS
        while not done():
            waited = time.perf_counter() - begin
            if waited >= timeout:
                raise DeviceTimeout(
                    f"work outlasted the bound of {timeout:g} s",
                    where=self.adapter.name,
                    do="its memory is left behind; use smaller launches or a longer bound",
                )
            if waited >= spin:
                least, most = _PAUSES
                pause = min(max(least, waited / _SHARE), most)
                time.sleep(min(pause, max(0.0, timeout - waited)))

    def close(self) -> None:
        """All work is done, and everything made with it is gone."""
        self.lib.wgpuQueueRelease(self.queue)
        self.lib.wgpuDeviceRelease(self.handle)


def plain(message: str) -> str:
    """What wgpu tells, on one line."""
    words = message.replace("Validation Error", "").replace("Caused by:", "")
    return " ".join(words.split())
