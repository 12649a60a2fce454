"""Numpy arrays as arguments of a synchronous call: used in place, or copied there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.interface import Param
from .arguments import check_array, check_may_overlap
from .errors import ArgumentError
from .hazards import Binding
from .launch import LoadedKernel
from .memory import Allocation, Array, as_dtype, as_stored, refuse_mask, scalar_array

if TYPE_CHECKING:
    from .device import Device


class _Region:
    """Host bytes lo..hi that arrays of one call share, and the memory that stands for them."""

    def __init__(self, lo: int, hi: int, arrays: list[tuple[Param, Array]]) -> None:
        self.lo, self.hi, self.arrays = lo, hi, arrays
        self.allocation: Allocation | None = None
        self.adopted = False


class HostArguments:
    """The arrays of one call. Arrays that overlap on the host overlap on the device, too.

    values: the arguments, all arrays of numpy's own class and scalars for slots among them.
    `binding` serves `arguments.bind`; `send` before the launch and `fetch` after it copy what was
    not adopted.
    """

    def __init__(self, device: Device, kernel: LoadedKernel, values: list[Any]) -> None:
        self.device, self.kernel = device, kernel
        self.values = [self._plain(n, value) for n, value in enumerate(values)]
        self._regions: list[_Region] = []
        for position, (param, value) in enumerate(zip(kernel.params, self.values, strict=True)):
            if param.is_memory and isinstance(value, np.ndarray):
                check_array(value, param, kernel.place(position))
                if value.size:
                    self._add(param, value)

    def binding(self, param: Param, array: Array) -> Binding:
        """Where an array of this call lies on the device."""
        reads, writes = param.access.reads, param.access.writes
        if not array.size:
            return Binding(self.device._dummy(), 0, 0, 0, reads, writes)
        address = _address(array)
        region = next(r for r in self._regions if r.lo <= address < r.hi)
        offset = address - region.lo
        alignment = self.device.capabilities.offset_alignment
        if offset % alignment:
            raise ArgumentError(
                f"array {param.name} overlaps another one at an odd distance",
                where=f"kernel {self.kernel.name}",
                expected=f"a multiple of {alignment} bytes",
                got=str(offset),
                do="pass a copy",
            )
        if region.allocation is None:
            region.allocation = self._place(region)
        count = 1 if param.kind == "slot" else array.size
        return Binding(region.allocation, offset, count * param.dtype.bytes, count, reads, writes)

    def send(self) -> None:
        """Copy arrays to the device. Written ones too: a kernel may leave elements alone."""
        for region in self._copied():
            for _, array in region.arrays:
                assert region.allocation is not None
                offset = _address(array) - region.lo
                self.device._write(region.allocation.handle, offset, _raw(array))

    def fetch(self) -> None:
        """Copy what the kernel may have written back into the arrays."""
        for region in self._copied():
            for param, array in region.arrays:
                if param.access.writes:
                    assert region.allocation is not None
                    offset = _address(array) - region.lo
                    self.device._read(region.allocation.handle, offset, _raw(array))

    def _plain(self, position: int, value: Any) -> Any:
        param, place = self.kernel.params[position], self.kernel.place(position)
        if param.kind == "slot" and isinstance(value, bool | int | float | np.generic):
            return scalar_array(value, param.dtype, place)
        if isinstance(value, np.ndarray) and as_stored(value) is not value:
            same = as_dtype(value.dtype) == param.dtype  # else what is wrong is told later
            return as_stored(value) if same else value
        if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
            refuse_mask(value, place)
            return value.view(np.ndarray)  # a matrix, for one, is indexed in a way of its own
        return value

    def _add(self, param: Param, array: Array) -> None:
        lo = _address(array)
        region = _Region(lo, lo + array.nbytes, [(param, array)])
        for other in [r for r in self._regions if r.lo < region.hi and region.lo < r.hi]:
            for earlier, there in other.arrays:
                begin = _address(there)
                if begin < lo + array.nbytes and lo < begin + there.nbytes:
                    same = (begin, there.nbytes) == (lo, array.nbytes)
                    check_may_overlap(self.kernel, earlier, param, same)
            self._regions.remove(other)
            region.lo, region.hi = min(region.lo, other.lo), max(region.hi, other.hi)
            region.arrays = other.arrays + region.arrays
        self._regions.append(region)

    def _place(self, region: _Region) -> Allocation:
        if len(region.arrays) == 1:
            handle = self.device._adopt(region.arrays[0][1])
            if handle is not None:
                region.adopted = True
                return Allocation(self.device, handle, 0)
        return self.device._reserve(region.hi - region.lo)

    def _copied(self) -> list[_Region]:
        return [r for r in self._regions if r.allocation is not None and not r.adopted]


def _address(array: Array) -> int:
    """As array.ctypes.data, in a third of the time."""
    return int(array.__array_interface__["data"][0])


def _raw(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data
