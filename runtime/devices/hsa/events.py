"""Faults of a whole GPU, which the library tells the process and nobody else: without a handler it
ends the process. There can be one handler; it stays for good."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from ...errors import DriverError
from .api import EVENT, Api
from .queue import Queue

_ALREADY = 0x1000  # somebody's handler is there
_MEMORY_FAULT = 0
_KINDS = {
    _MEMORY_FAULT: "a memory fault",
    1: "an exception of the hardware",
    2: "an error of memory",
}
_queues: weakref.WeakSet[Queue] = weakref.WeakSet()


class _Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("agent", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("reasons", ctypes.c_uint32),
    )


def _handle(event: Any, data: Any) -> int:
    told = _Event.from_address(event)
    what = f"the device reports {_KINDS.get(told.kind, f'event {told.kind}')}"
    if told.kind == _MEMORY_FAULT:
        what += f" at address {told.address:#x} (reasons {told.reasons:#x})"
    hit = [queue for queue in list(_queues) if queue.agent == told.agent]
    for queue in hit:
        queue.fail(what)
    return 0 if hit else 1  # not ours: what the library does by itself


_handler = EVENT(_handle)  # for as long as the library may call it


def watch(api: Api, queue: Queue) -> None:
    """Let faults of a queue's agent fail the queue."""
    _queues.add(queue)
    try:
        api.call("hsa_amd_register_system_event_handler", _handler, None)
    except DriverError as error:
        if error.code != _ALREADY:
            raise


def forget(queue: Queue) -> None:
    """The queue is closed."""
    _queues.discard(queue)
