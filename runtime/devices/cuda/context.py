"""The primary context of a device, which PyTorch and CuPy in this process use as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any, Concatenate, ParamSpec, TypeVar

from ...errors import NoDevice
from .api import UNAVAILABLE, Api

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="HasContext")


class Context:
    """A use of the primary context, current during a call.

    A thread that had another context gets it back. One that had none keeps that of the first
    device, which CUDA's runtime library would give it as well: asking costs a launch less than
    putting it away.

    A thread may still have a context that an earlier use released and the driver destroyed, and the
    new one may have its address: what a thread has counts only once it has entered this use. (A
    number of a thread that ended is given again to one that began later, without a context.)

    What is called most asks `now() == here and get_ident() in threads` first: whether it is current
    already, or has to enter.
    """

    def __init__(self, api: Api, ordinal: int) -> None:
        self.api = api
        self.device = api.call("cuDeviceGet", ordinal)
        status, self.handle = api.drv.cuDevicePrimaryCtxRetain(self.device)
        if status:
            if int(status) == UNAVAILABLE:
                raise NoDevice(
                    f"CUDA device {ordinal} is in exclusive use",
                    do="end the other process, or set the compute mode to default",
                )
            raise api.error(status, "cuDevicePrimaryCtxRetain")
        self._number, self._stays = int(self.handle), ordinal == 0
        self.now, self._set = api.drv.cuCtxGetCurrent, api.drv.cuCtxSetCurrent
        self.here = status, self.handle
        self.threads: set[int] = set()  # those that have entered
        self._before: list[Any] = []  # what to put back, by depth; None: nothing

    def __enter__(self) -> None:
        status, before = self.now()
        thread = get_ident()
        if not status and (int(before) != self._number or thread not in self.threads):
            (status,) = self._set(self.handle)
            if not status:
                self.threads.add(thread)
            self._before.append(None if self._stays and not int(before) else before)
        else:
            self._before.append(None)
        if status:
            self._before.pop()
            raise self.api.error(status, "cuCtxSetCurrent")

    def __exit__(self, *exception: object) -> None:
        before = self._before.pop()
        if before is not None:
            self._set(before)

    def release(self) -> None:
        """Undo the retain, and what this thread kept."""
        status, now = self.now()
        if self._stays and not status and int(now) == self._number:
            self._set(0)
        self.api.call("cuDevicePrimaryCtxRelease", self.device)


class Beside:
    """Calls that the captures of other libraries do not notice.

    While somebody captures a stream into a graph, what is not put into a stream (memory, modules,
    asking for events) is by default not allowed and ends the capture, on the capturing thread and,
    as PyTorch captures, on every other. Nothing of this device is part of anybody's capture, so
    its calls are made in the mode that allows them. Launches and replays need none.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._exchange = api.drv.cuThreadExchangeStreamCaptureMode
        self._relaxed = api.drv.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._before: list[Any] = []  # by depth; the device's lock is held

    def __enter__(self) -> None:
        status, before = self._exchange(self._relaxed)
        if status:
            raise self._api.error(status, "cuThreadExchangeStreamCaptureMode")
        self._before.append(before)

    def __exit__(self, *exception: object) -> None:
        self._exchange(self._before.pop())


class HasContext:
    """Whatever calls the driver."""

    _context: Context
    _beside: Beside


def current(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[T, P], R]:
    """A method that runs with the object's context current, beside other libraries' captures."""

    @functools.wraps(method)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._context, self._beside:
            return method(self, *args, **kwargs)

    return call


def attribute(api: Api, device: Any, name: str) -> int:
    """A CU_DEVICE_ATTRIBUTE_... of a device."""
    which = getattr(api.drv.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(api.call("cuDeviceGetAttribute", which, device))
