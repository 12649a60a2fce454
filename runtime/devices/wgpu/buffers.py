"""wgpu buffers, and copies between them and host arrays."""

from __future__ import annotations

from typing import Any

from ...errors import DriverError, OutOfMemory
from .logical import OUT_OF_MEMORY, Logical

MAP_READ, COPY_SOURCE, COPY_TARGET, UNIFORM, STORAGE, RESOLVE = 1, 4, 8, 0x40, 0x80, 0x200
_DATA = COPY_SOURCE | COPY_TARGET | STORAGE
HALF = 8 << 20  # bytes of a staging buffer
_SMALL = 1 << 16
_FULL = "Not enough memory left"  # which the library tells as a validation error
_MOST_WRITTEN = 64 << 20  # bytes that the library may hold for writes that are not submitted


class WgpuBuffer:
    """A WGPUBuffer of `size` bytes. groups: what to call before it goes, by any key."""

    __slots__ = ("_lib", "groups", "handle", "size")

    def __init__(self, logical: Logical, size: int, usage: int = _DATA) -> None:
        self._lib, self.size = logical.lib, size
        self.groups: dict[Any, Any] = {}
        descriptor = logical.api.struct("WGPUBufferDescriptor", size=size, usage=usage)
        self.handle = logical.lib.wgpuDeviceCreateBuffer(logical.handle, descriptor)
        try:
            logical.check("wgpuDeviceCreateBuffer")
        except DriverError as error:
            if self.handle:
                self._lib.wgpuBufferRelease(self.handle)
            if error.code == OUT_OF_MEMORY or _FULL in str(error):
                raise OutOfMemory(size, 0, logical.adapter.name) from error
            raise

    def destroy(self) -> None:
        """Give the memory back once submitted work is done with it."""
        for forget in list(self.groups.values()):
            forget()
        self.groups.clear()
        self._lib.wgpuBufferDestroy(self.handle)
        self._lib.wgpuBufferRelease(self.handle)


class Transfers:
    """Writes go through the library's staging memory, reads through mapped buffers of our own.

    WebGPU copies whole words at whole words: what is narrower is merged with what is around it.
    """

    def __init__(self, logical: Logical) -> None:
        self._logical, self._lib, self._ffi = logical, logical.lib, logical.ffi
        self._staging: dict[tuple[int, int], WgpuBuffer] = {}
        self._written = 0

    def write(self, target: WgpuBuffer, offset: int, data: memoryview) -> None:
        """Copy to the device in queue order; `data` may be reused on return."""
        head = min(-offset % 4, len(data))
        if head:
            self._merge(target, offset, data[:head])
            offset, data = offset + head, data[head:]
        tail = len(data) % 4
        whole = len(data) - tail
        for start in range(0, whole, HALF):
            part = data[start : min(start + HALF, whole)]
            self.put(target, offset + start, self._ffi.from_buffer(part), len(part))
        if tail:
            self._merge(target, offset + whole, data[whole:])

    def put(self, target: WgpuBuffer, offset: int, data: Any, size: int) -> None:
        """Whole words, in queue order."""
        self._lib.wgpuQueueWriteBuffer(self._logical.queue, target.handle, offset, data, size)
        self._logical.check("wgpuQueueWriteBuffer")
        self._written += size
        if self._written >= _MOST_WRITTEN:
            self._written = 0
            self._logical.flush()
            self._logical.wait(self._logical.timeout)

    def _merge(self, target: WgpuBuffer, offset: int, data: memoryview) -> None:
        """Less than a word."""
        at = offset & ~3
        word = bytearray(4)
        self.read(target, at, memoryview(word))
        word[offset - at : offset - at + len(data)] = data
        self.put(target, at, bytes(word), 4)

    def read(self, source: WgpuBuffer, offset: int, data: memoryview) -> None:
        """Copy from the device, after all submitted work."""
        begin = offset & ~3
        end = offset + len(data) + 3 & ~3
        starts = list(range(begin, end, HALF))
        for n, start in enumerate([*starts, None]):
            if start is not None:  # the next part travels while the last one is unpacked
                self._copy(source, start, min(HALF, end - start), n % 2)
            if n:
                before = starts[n - 1]
                self._take(min(HALF, end - before), (n - 1) % 2, before - offset, data)

    def _copy(self, source: WgpuBuffer, start: int, size: int, half: int) -> None:
        encoder = self._logical.encoder()
        staging = self._place(size, half).handle
        self._lib.wgpuCommandEncoderCopyBufferToBuffer(
            encoder, source.handle, start, staging, 0, size
        )
        self._logical.submit(encoder)

    def _take(self, size: int, half: int, at: int, data: memoryview) -> None:
        """Unpack a staging buffer whose first byte is byte `at` of the data."""
        staging = self._place(size, half).handle
        address = self._logical.mapped(staging, size, self._logical.timeout)
        skip = max(0, -at)
        count = min(size, len(data) - at) - skip
        self._ffi.memmove(data[at + skip : at + skip + count], address + skip, count)
        self._lib.wgpuBufferUnmap(staging)

    def _place(self, size: int, half: int) -> WgpuBuffer:
        room = _SMALL if size <= _SMALL else HALF
        if (room, half) not in self._staging:
            made = WgpuBuffer(self._logical, room, MAP_READ | COPY_TARGET)
            self._staging[room, half] = made
        return self._staging[room, half]

    def close(self) -> None:
        """No work is pending."""
        for buffer in self._staging.values():
            buffer.destroy()
        self._staging.clear()
