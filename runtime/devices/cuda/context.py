"""The primary context of a device, which PyTorch and CuPy in this process use as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from .api import Api

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="HasContext")


class Context:
    """A use of the primary context. Made current for a call and put away after it, so that the
    calling thread finds the context that it had."""

    def __init__(self, api: Api, ordinal: int) -> None:
        self.api = api
        self.device = api.call("cuDeviceGet", ordinal)
        self.handle = api.call("cuDevicePrimaryCtxRetain", self.device)
        self._push, self._pop = api.drv.cuCtxPushCurrent, api.drv.cuCtxPopCurrent

    def __enter__(self) -> None:
        (status,) = self._push(self.handle)
        if status:
            raise self.api.error(status, "cuCtxPushCurrent")

    def __exit__(self, *exception: object) -> None:
        self._pop()

    def release(self) -> None:
        """Undo the retain."""
        self.api.call("cuDevicePrimaryCtxRelease", self.device)


class HasContext:
    """Whatever calls the driver."""

    _context: Context


def current(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[T, P], R]:
    """A method that runs with the object's context current."""

    @functools.wraps(method)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._context:
            return method(self, *args, **kwargs)

    return call


def attribute(api: Api, device: Any, name: str) -> int:
    """A CU_DEVICE_ATTRIBUTE_... of a device."""
    which = getattr(api.drv.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(api.call("cuDeviceGetAttribute", which, device))
