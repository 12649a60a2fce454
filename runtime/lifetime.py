"""The open devices of the process, which are closed before drivers unload.

A device that is never closed lives until the interpreter ends, also when nobody holds it: its
threads and driver objects cannot be taken apart from a destructor.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import Device

WAIT_SECONDS = 600.0  # that a wait may take unless somebody says so
EXIT_SECONDS = 5.0
_open: set[Device] = set()


def opened(device: Device) -> None:
    """Note an open device."""
    _open.add(device)


def closed(device: Device) -> None:
    """Forget a closed one."""
    _open.discard(device)


def _forked() -> None:
    """In a child process: the devices are the parent's, and so is whoever holds their locks."""
    for device in _open:
        device._forked, device._usable = True, False
        device._lock = threading.RLock()
    _open.clear()


os.register_at_fork(after_in_child=_forked)


@atexit.register
def _close_all() -> None:
    from .errors import GristmillError

    end = time.monotonic() + EXIT_SECONDS
    for device in list(_open):
        left = max(0.0, end - time.monotonic())
        if not device._lock.acquire(timeout=left):
            device._abandon()  # a thread waits for its work, with this lock
            continue
        try:
            device.timeout = min(device.timeout, max(0.0, end - time.monotonic()))
            with contextlib.suppress(GristmillError):  # nobody is left to hear of it
                device.close()
        finally:
            device._lock.release()
