"""Memory that is shared with other libraries of this process, such as PyTorch and CuPy.

Foreign memory has offsets counted from address 0 and one serial number for all of it, so that two
tensors that overlap are seen to overlap. Whoever shares memory orders streams: taking it, the
device's stream waits for the owner's; giving it, the taker's stream waits for the device's.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir.dtypes import DType
from ...errors import ArgumentError, DriverError
from ...memory import Allocation, Buffer, as_dtype
from . import dlpack
from .memory import CudaMemory

if TYPE_CHECKING:
    from .device import CudaDevice

LEGACY, PER_THREAD = 1, 2  # default streams, as both protocols and the driver number them


class Shared:
    """What one device shares: own memory that was given away, foreign memory in use."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._given: dict[int, weakref.ref[Allocation]] = {}
        self._serial: int | None = None
        # Foreign memory that nobody holds, and an event after the last work that may use it.
        self._parting: deque[tuple[Any, CudaMemory]] = deque()

    def adopt(self, value: Any, where: str) -> Buffer | None:
        """A buffer on another library's memory; None where the value is none of this device's."""
        self.part()
        if isinstance(value, Buffer):
            return value
        kind = getattr(value, "__dlpack_device__", None)
        if kind is not None and kind()[0] in (dlpack.CUDA, dlpack.CUDA_MANAGED):
            return self._from_dlpack(value, where)
        interface = getattr(value, "__cuda_array_interface__", None)
        return None if interface is None else self._from_interface(value, interface, where)

    def give(self, buffer: Buffer, stream: int | None) -> Any:
        """A DLPack capsule; work on the taker's stream waits for what was submitted."""
        if stream is not None and (not isinstance(stream, int) or stream == 0 or stream < -1):
            raise BufferError(f"stream {stream!r}: 1, 2, a stream's handle, or -1 for none")
        if stream != -1:
            self._device._queue.before(LEGACY if stream is None else stream)
        memory: CudaMemory = buffer.allocation.handle
        if memory.keep is None:
            memory.shared = True
            self._given[memory.address] = weakref.ref(buffer.allocation)
        address = memory.address + buffer.offset if buffer.count else 0
        return dlpack.give(address, self._device.ordinal, buffer.shape, buffer.dtype, buffer)

    def interface(self, buffer: Buffer) -> dict[str, Any]:
        """`__cuda_array_interface__`, version 3: users wait for the device's stream."""
        if buffer.dtype.name == "bf16":
            raise AttributeError("__cuda_array_interface__ has no bf16")
        memory: CudaMemory = buffer.allocation.handle
        if memory.keep is None:
            memory.shared = True
            self._given[memory.address] = weakref.ref(buffer.allocation)
        return {
            "shape": buffer.shape,
            "typestr": np.dtype(buffer.dtype.storage).str,
            "data": (memory.address + buffer.offset if buffer.count else 0, buffer.read_only),
            "strides": None,
            "stream": self._device.stream,
            "version": 3,
        }

    def release(self, memory: CudaMemory) -> None:
        """Nobody holds foreign memory any more; its owner hears when pending work is done."""
        queue = self._device._queue
        event = queue.event()
        queue.mark(event)
        self._parting.append((event, memory))
        self.part()

    def part(self) -> None:
        """Let go of foreign memory whose last work is done."""
        queue = self._device._queue
        while self._parting and queue.come(self._parting[0][0]):
            event, memory = self._parting.popleft()
            self._device.api.call("cuEventDestroy", event)
            memory.keep()

    def forget(self, memory: CudaMemory) -> None:
        """Own memory goes back. Others may still use what they were given: the memory is free
        after all that the context holds now."""
        self._given.pop(memory.address, None)
        api, queue = self._device.api, self._device._queue
        event = queue.event()
        try:
            try:
                api.call("cuCtxRecordEvent", self._device._context.handle, event)
            except DriverError:  # older than CUDA 12.5, or a stream is being captured
                api.call("cuEventRecord", event, LEGACY)
            api.call("cuStreamWaitEvent", queue.stream, event, 0)
        finally:
            api.call("cuEventDestroy", event)

    def _from_dlpack(self, value: Any, where: str) -> Buffer:
        stream = self._device.stream
        try:
            capsule = value.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # from before versions
            capsule = value.__dlpack__(stream=stream)
        self._device._queue.busy = True
        taken = dlpack.take(capsule, where)
        try:
            self._check(taken.shape, taken.strides, taken.device_id, where)
            return self._buffer(
                taken.address, taken.shape, taken.dtype, taken.read_only, taken.let_go
            )
        except BaseException:
            taken.let_go()
            raise

    def _from_interface(self, value: Any, interface: dict[str, Any], where: str) -> Buffer:
        if interface.get("mask") is not None:
            raise ArgumentError("a masked array", where=where, expected="a plain array")
        dtype = as_dtype(interface["typestr"])
        address, read_only = interface["data"]
        shape, strides = tuple(interface["shape"]), interface.get("strides")
        if strides is not None:
            if any(s % dtype.bytes for s in strides):
                strides = (0,) * len(shape)  # refused below
            strides = tuple(s // dtype.bytes for s in strides)
        owner = self._device.ordinal
        if math.prod(shape):
            names = self._device.api.drv.CUpointer_attribute
            which = names.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
            owner = int(self._device.api.call("cuPointerGetAttribute", which, address))
        self._check(shape, strides, owner, where)
        # Without a word on streams the owner's default stream is meant; None: all is done.
        stream = interface.get("stream", LEGACY)
        if stream is not None:
            self._device._queue.after(int(stream))

        def let_go(held: list[Any] = [value]) -> None:  # noqa: B006 (a cell that is emptied)
            held.clear()

        return self._buffer(int(address or 0), shape, dtype, bool(read_only), let_go)

    def _check(
        self, shape: tuple[int, ...], strides: tuple[int, ...] | None, owner: int, where: str
    ) -> None:
        if owner != self._device.ordinal:
            raise ArgumentError(
                "memory of another device",
                where=where,
                expected=f"device {self._device.ordinal}",
                got=f"device {owner}",
            )
        if strides is not None and not _in_order(shape, strides):
            raise ArgumentError(
                "array is not contiguous",
                where=where,
                expected="C order without gaps",
                got=f"strides {strides} of shape {shape}",
                do="pass its .contiguous()",
            )

    def _buffer(
        self, address: int, shape: tuple[int, ...], dtype: DType, read_only: bool, let_go: Any
    ) -> Buffer:
        own = self._own(address) if math.prod(shape) else None
        if own is not None:  # it was given away and comes back
            let_go()
            buffer = Buffer(own, address - own.handle.address, shape, dtype)
        else:
            allocation = Allocation(self._device, CudaMemory(0, 0, let_go), 0)
            if self._serial is None:
                self._serial = allocation.serial
            allocation.serial = self._serial
            buffer = Buffer(allocation, address, shape, dtype)
        buffer.read_only = read_only
        return buffer

    def _own(self, address: int) -> Allocation | None:
        for start, held in self._given.items():
            allocation = held()
            if allocation is not None and start <= address < start + allocation.nbytes:
                return allocation
        return None


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if not math.prod(shape):
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
