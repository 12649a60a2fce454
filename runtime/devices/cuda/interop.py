"""Memory that is shared with other libraries of this process, such as PyTorch and CuPy.

Foreign memory has offsets counted from address 0 and one serial number for all of it, so that two
tensors that overlap are seen to overlap. Whoever shares memory orders streams: taking it, the
device's stream waits for the owner's; giving it, the taker's stream waits for the device's. What
comes later only callers can order (DLPack does not tell the owner's stream): by `order_after` and
`order_before` of the device.
"""

from __future__ import annotations

import math
import weakref
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir.dtypes import DType
from ...errors import ArgumentError, DriverError
from ...memory import Allocation, Buffer, as_dtype
from . import dlpack
from .memory import CudaMemory

if TYPE_CHECKING:
    from .device import CudaDevice

INVALID_VALUE = 1
LEGACY, PER_THREAD = 1, 2  # default streams, as both protocols and the driver number them


class Shared:
    """What one device shares: own memory that was given away, foreign memory in use."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._given: dict[int, weakref.ref[Allocation]] = {}
        self._starts: list[int] = []  # the addresses in it, sorted
        self._serial: int | None = None
        # Foreign memory that nobody holds, and an event after the last work that may use it.
        self._parting: deque[tuple[Any, CudaMemory]] = deque()
        self._staying: list[CudaMemory] = []  # own memory, until a capture ends

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
        address = self._note(buffer) + buffer.offset if buffer.count else 0
        if stream == -1 or (stream is not None and self._device._queue.apart(stream)):
            buffer.allocation.handle.apart = True
        ordinal, done = self._device.ordinal, self._device.taker_is_done
        return dlpack.give(address, ordinal, buffer.shape, buffer.dtype, buffer.allocation, done)

    def interface(self, buffer: Buffer) -> dict[str, Any]:
        """`__cuda_array_interface__`, version 3: users wait for the device's stream. Nothing tells
        when they are done: the buffer must outlive them."""
        if not buffer.dtype.has_numpy:
            raise AttributeError(f"__cuda_array_interface__ has no {buffer.dtype}")
        address = self._note(buffer) + buffer.offset if buffer.count else 0
        return {
            "shape": buffer.shape,
            "typestr": np.dtype(buffer.dtype.storage).str,
            "data": (address, buffer.read_only),
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
        """Let go of foreign memory whose last work is done, and of own memory that had to stay."""
        queue = self._device._queue
        while self._parting and queue.come(self._parting[0][0]):
            event, memory = self._parting.popleft()
            self._device.api.call("cuEventDestroy", event)
            memory.keep()
        staying, self._staying = self._staying, []
        for memory in staying:
            self.forget(memory)

    def forget(self, memory: CudaMemory) -> None:
        """Own memory goes back that others were given. They may still use it: it is free after all
        that their streams hold now. Where those are default streams, or wait for them, an event
        there covers them; an event after the whole context would end every capture that somebody
        has under way, so only memory that was taken on another stream asks for it. A default
        stream that is drawn into a capture cannot be asked: memory stays until that one ends.
        """
        device = self._device
        if device._queue.drawn_in(LEGACY):
            self._staying.append(memory)
        elif memory.apart:
            self.forget_all([memory])
        else:
            device._queue.after(LEGACY)
            self._give_back(memory)

    def forget_all(self, memories: Iterable[CudaMemory]) -> None:
        """Own memory goes back, after all that anybody has submitted."""
        device, memories = self._device, list(memories)
        if not memories:
            return
        try:
            device._queue.after_context(device._context.handle)
        except DriverError:  # older than CUDA 12.5, or a stream is being captured
            if not device._queue.drawn_in(LEGACY):
                device._queue.after(LEGACY)
        for memory in memories:
            self._give_back(memory)

    def _give_back(self, memory: CudaMemory) -> None:
        if self._given.pop(memory.address, None) is not None:
            del self._starts[bisect_left(self._starts, memory.address)]
        self._device._heap.release(memory)

    def _from_dlpack(self, value: Any, where: str) -> Buffer:
        stream = self._device.stream
        try:
            capsule = value.__dlpack__(stream=stream, max_version=(1, 0))
        except TypeError:  # from before versions
            capsule = value.__dlpack__(stream=stream)
        queue = self._device._queue
        queue.busy = True
        queue.not_captured(queue.stream)  # else the owner has drawn it into a capture of its own
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
        dtype, address, read_only = _told(interface, where)
        shape, strides = tuple(interface["shape"]), interface.get("strides")
        if strides is not None:
            if any(s % dtype.bytes for s in strides):
                strides = (0,) * len(shape)  # refused below
            strides = tuple(s // dtype.bytes for s in strides)
        owner = self._device.ordinal
        if math.prod(shape):
            owner = self._ordinal(address, where)
        self._check(shape, strides, owner, where)
        # Without a word on streams the owner's default stream is meant; None: all is done.
        stream = interface.get("stream", LEGACY)
        if stream is not None:
            self._device._queue.after(int(stream))

        def let_go(held: list[Any] = [value]) -> None:  # noqa: B006 (a cell that is emptied)
            held.clear()

        return self._buffer(address, shape, dtype, read_only, let_go)

    def _ordinal(self, address: int, where: str) -> int:
        """The device that an address belongs to."""
        api = self._device.api
        which = api.drv.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        try:
            return int(api.call("cuPointerGetAttribute", which, address))
        except DriverError as error:
            if error.code != INVALID_VALUE:
                raise
            raise ArgumentError(
                "no memory of this device",
                where=where,
                expected="the address of device memory",
                got=f"{address:#x}, which the driver does not know",
            ) from error

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
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        allocation = self._given[start]()
        if allocation is None or address >= start + allocation.nbytes:
            return None
        return allocation

    def _note(self, buffer: Buffer) -> int:
        """Others are about to be handed a buffer; the address of its memory."""
        memory: CudaMemory = buffer.allocation.handle
        if memory.keep is None:
            memory.shared = True
            if memory.address not in self._given:
                insort(self._starts, memory.address)
            self._given[memory.address] = weakref.ref(buffer.allocation)
        return memory.address


def _told(interface: dict[str, Any], where: str) -> tuple[DType, int, bool]:
    """Type, address and whether it is read-only; ArgumentError where an interface lacks them."""
    missing = [name for name in ("shape", "typestr", "data") if name not in interface]
    data = interface.get("data")
    if missing or not isinstance(data, tuple) or len(data) != 2:
        raise ArgumentError(
            f"__cuda_array_interface__ without {' and '.join(missing) or 'an address'}",
            where=where,
            expected="shape, typestr and data, which is an address and whether it is read-only",
        )
    try:
        dtype = as_dtype(interface["typestr"])
    except ArgumentError as error:
        raise ArgumentError(error.what, where=where, expected=error.expected) from error
    return dtype, int(data[0] or 0), bool(data[1])


def _in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    if not math.prod(shape):
        return True
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True
