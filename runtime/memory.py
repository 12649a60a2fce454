"""Device memory as the caller sees it: buffers, views of them, slots, and the accounting."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..ir.abi import scalar_bits
from ..ir.dtypes import DTYPES, DType
from .errors import ArgumentError, StateError, named

if TYPE_CHECKING:
    import numpy.typing as npt

    from .device import Device
    from .hazards import Binding

    # With the serial number of its allocation, its offset, nbytes and elements, and its address
    # where the driver has one: in a plain tuple, which is taken apart in no time.
    Bound = tuple[Binding, tuple[int, int, int, int, int]]

    Array = npt.NDArray[Any]
else:  # numpy.typing is only imported by type checkers
    Array = np.ndarray

GRANULE = 16  # allocations are multiples of this many bytes
_LONGEST_WAIT = 1e9  # seconds: what operating systems take for sure
_serial = itertools.count(1)


class MemoryReport(NamedTuple):
    """Bytes: held by live buffers now and at most so far, what may be held, what there is.

    estimated: the budget is the memory's size minus what this device holds, because the driver
    does not say what other programs use.
    """

    live: int
    peak: int
    budget: int
    total: int
    estimated: bool


class Allocation:
    """Memory of one device; returned to it when the last buffer, view or recording lets go."""

    __slots__ = ("__weakref__", "device", "handle", "nbytes", "serial")

    def __init__(self, device: Device, handle: Any, nbytes: int) -> None:
        self.device, self.handle, self.nbytes = device, handle, nbytes
        self.serial = next(_serial)

    def __del__(self) -> None:
        # May run in any thread, even inside a call of the device: only hand it over.
        self.device._garbage.append((self.handle, self.nbytes))


class Buffer:
    """Elements of one dtype in device memory; a view shares memory with what it was made from.

    Other libraries on the same device take it by DLPack, which keeps its memory for them, or by
    `__cuda_array_interface__`: then the buffer, and the open device, must outlive their use of it.
    """

    read_only = False  # memory of another library that must not be written

    def __init__(
        self, allocation: Allocation, offset: int, shape: tuple[int, ...], dtype: DType
    ) -> None:
        self._allocation: Allocation | None = allocation
        self.device = allocation.device
        self.offset, self.shape, self.dtype = offset, shape, dtype
        self.count = math.prod(shape)
        self.nbytes = self.count * dtype.bytes
        # What full checks have bound it to, by what parameters ask (see `binder`).
        self.bound: dict[object, Bound] = {}

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"<{type(self).__name__} {self.dtype}[{shape}] on {self.device.name}>"

    @property
    def allocation(self) -> Allocation:
        """The memory behind the buffer; StateError after `free`."""
        if self._allocation is None:
            raise StateError("the buffer was freed", where=repr(self))
        return self._allocation

    def view(self, start: int, count: int, dtype: DType | str | None = None) -> Buffer:
        """`count` elements (of `dtype`, if given) from element `start`, as a 1-d buffer."""
        kind = self.dtype if dtype is None else as_dtype(dtype)
        start, count = _whole(start, repr(self)), _whole(count, repr(self))
        offset, nbytes = start * kind.bytes, count * kind.bytes
        if start < 0 or count < 0 or offset + nbytes > self.nbytes:
            raise ArgumentError(
                f"view of elements {start}..{start + count}",
                where=repr(self),
                expected=f"a range within {self.nbytes // kind.bytes} elements of {kind}",
            )
        return self._part(self.offset + offset, (count,), kind)

    def reshape(self, *shape: int) -> Buffer:
        """The same elements with another shape."""
        sizes = as_shape(shape)
        if math.prod(sizes) != self.count:
            raise ArgumentError(
                f"reshape to {sizes}", where=repr(self), expected=f"{self.count} elements"
            )
        return self._part(self.offset, sizes, self.dtype)

    def _part(self, offset: int, shape: tuple[int, ...], dtype: DType) -> Buffer:
        part = Buffer(self.allocation, offset, shape, dtype)
        part.read_only = self.read_only
        return part

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of the same memory; BufferError where the device cannot share it."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(f"{self!r} is shared in place only: no copy, no other device")
        if self.read_only:
            raise BufferError(f"{self!r} is read-only")
        return self.device._give(self, stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device._place()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.device._interface(self)

    def write(self, array: Array) -> None:
        """Replace the contents; ordered after every launch and replay submitted before."""
        self.device.write(self, array)

    def numpy(self) -> Array:
        """The contents once all work submitted before is done (bf16 as uint16, f8 as uint8)."""
        return self.device.download(self)

    def free(self) -> None:
        """Let go of the memory; it is returned when no view or recording needs it any more."""
        self._allocation = None
        self.bound.clear()
        self.device._collect()


class Slot(Buffer):
    """One value in device memory that launches and replays read when they run."""

    def set(self, value: float) -> None:
        """Takes effect after everything submitted before and before everything after."""
        self.device._set_slot(self, scalar_array(value, self.dtype, repr(self)))


# Types that numpy lacks, as the ml_dtypes package names them.
_NAMED = {"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "bfloat16": "bf16"}


def as_stored(array: Array) -> Array:
    """An array of one of ml_dtypes' types as its bits; any other array as it is."""
    kind = array.dtype.kind
    other = kind == "V" or (kind == "f" and array.itemsize == 1)  # a name takes long to ask for
    name = _NAMED.get(array.dtype.name) if other else None
    return array if name is None else array.view(DTYPES[name].storage)


def conversion_to(dtype: DType) -> str:
    """What to do with an array of another type."""
    if dtype.has_numpy:
        return "convert it with .astype"
    named = next(name for name, own in _NAMED.items() if own == dtype.name)
    return f"convert it with .astype(ml_dtypes.{named}), or pass its bits as {dtype.storage}"


def as_dtype(dtype: DType | str | npt.DTypeLike) -> DType:
    """The gristmill dtype of a DType, of its name or of a numpy dtype; ArgumentError else."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    try:
        wanted = None if dtype is None else np.dtype(dtype)  # numpy takes None for float64
    except (TypeError, ValueError):
        wanted = None
    if wanted is not None and wanted.name in _NAMED:
        return DTYPES[_NAMED[wanted.name]]
    for candidate in DTYPES.values():
        if wanted is not None and candidate.has_numpy and candidate.storage == wanted:
            return candidate
    raise ArgumentError(f"not a dtype: {dtype!r}", expected=f"one of {', '.join(DTYPES)}")


def as_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape as a tuple; ArgumentError on anything but non-negative integers."""
    sizes = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(map(is_size, sizes)):
        raise ArgumentError(f"shape {shape!r}", expected="integers of at least 0")
    return tuple(int(size) for size in sizes)


def is_size(value: Any) -> bool:
    """Whether a value is an integer of at least 0, of Python or of numpy."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and bool(value >= 0)


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise ArgumentError("wrong type", where=where, expected="an int", got=named(value))
    return int(value)


def host_array(value: npt.ArrayLike, where: str) -> Array:
    """A value as a C-contiguous array of its shape; ArgumentError where it is none."""
    try:
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
    except (TypeError, ValueError) as error:  # a ragged list
        raise ArgumentError(f"not an array ({error})", where=where) from error
    refuse_mask(array, where)
    return np.ascontiguousarray(array).reshape(array.shape)


def refuse_mask(array: Array, where: str) -> None:
    """ArgumentError for a masked array: a device would compute with what is masked out."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(
            "a masked array", where=where, expected="a plain array", do="pass its .filled(VALUE)"
        )


def as_seconds(value: Any, where: str) -> float:
    """The bound of a wait; ArgumentError on anything but a finite number of at least 0."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not number or isinstance(value, bool) or not 0 <= value < math.inf:
        raise ArgumentError(
            "wrong timeout",
            where=where,
            expected="a finite number of seconds, at least 0",
            got=named(value),
        )
    return float(min(value, _LONGEST_WAIT))


def scalar_value_bits(value: Any, dtype: DType, where: str) -> int:
    """The bit pattern of a by-value scalar, checked: kind, range, finite stays finite."""
    if dtype.is_bool:
        if not isinstance(value, bool | np.bool_):
            raise ArgumentError("wrong type", where=where, expected="a bool", got=named(value))
    elif dtype.is_int:
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise ArgumentError("wrong type", where=where, expected="an int", got=named(value))
        if not dtype.min <= value <= dtype.max:
            raise ArgumentError(
                f"value outside {dtype}",
                where=where,
                expected=f"{dtype.min} to {dtype.max}",
                got=str(value),
            )
    elif not isinstance(value, float | int | np.floating | np.integer) or isinstance(value, bool):
        raise ArgumentError("wrong type", where=where, expected="a number", got=named(value))
    try:
        bits = scalar_bits(value.item() if isinstance(value, np.generic) else value, dtype)
    except OverflowError as error:  # an int beyond every float
        raise ArgumentError(f"value outside {dtype}", where=where, got=str(value)) from error
    if (
        dtype.is_float
        and bits & _magnitude(dtype) == scalar_bits(math.inf, dtype)
        and -math.inf < value < math.inf
    ):
        what = "a NaN" if dtype.name == "f8e4m3" else "infinite"
        raise ArgumentError(
            f"value outside {dtype}: it would become {what}", where=where, got=str(value)
        )
    return bits


def _magnitude(dtype: DType) -> int:
    return (1 << (dtype.bits - 1)) - 1


def scalar_array(value: Any, dtype: DType, where: str) -> Array:
    """A checked scalar as an array of one element of the storage type."""
    bits = scalar_value_bits(value, dtype, where)
    return np.frombuffer(bits.to_bytes(dtype.bytes, "little"), dtype.storage)


def padded(nbytes: int) -> int:
    """The size that is allocated for `nbytes`."""
    return max(GRANULE, -(-nbytes // GRANULE) * GRANULE)
