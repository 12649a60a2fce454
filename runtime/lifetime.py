"""Closing devices that are still open when the interpreter ends, before drivers unload."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import Device

EXIT_SECONDS = 5.0
_open: weakref.WeakSet[Device] = weakref.WeakSet()


def opened(device: Device) -> None:
    """Note an open device."""
    _open.add(device)


def closed(device: Device) -> None:
    """Forget a closed one."""
    _open.discard(device)


def open_devices() -> list[Device]:
    """The devices that are open in this process."""
    return list(_open)


@atexit.register
def _close_all() -> None:
    from .errors import GristmillError

    for device in list(_open):
        device.timeout = min(device.timeout, EXIT_SECONDS)
        with contextlib.suppress(GristmillError):  # nobody is left to hear of it
            device.close()
