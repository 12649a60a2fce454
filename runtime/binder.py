"""The quick way from arguments to a command, for launches with which nothing is wrong.

It takes what it knows to be right: buffers that a full check has bound to such a parameter before,
numbers of the plain types within their range. For all else it gives None, and `arguments.bind`
checks again and says what is wrong. Nothing is left unchecked; it is what a launch from Python
costs that is kept small.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..ir.abi import GRID_OPS
from ..ir.dtypes import DType
from .hazards import Binding
from .launch import MAX_GROUPS, Command, Grid

if TYPE_CHECKING:
    from .launch import LoadedKernel

# A grid expression over the launch's bindings and arguments.
Size = Callable[[Sequence[Binding], Sequence[Any]], int]
_new: Any = tuple.__new__  # a third of what the constructor of a named tuple costs
_EXACT = 1 << 24  # integers up to here are f32 values, and f64 ones
_PACK = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


class Unusual(Exception):  # noqa: N818 (no error: the slow way is taken)
    """Something that only the full check can judge."""


class Binder:
    """Binds the arguments of one kernel. keys: for each buffer parameter, by position, under what
    `Buffer.bound` keeps the binding that a full check has made."""

    def __init__(self, kernel: LoadedKernel, known: dict[tuple[Any, ...], object]) -> None:
        self._kernel = kernel
        self._count = len(kernel.params)
        self.keys: dict[int, object] = {}
        scalars: list[tuple[int, Callable[[Any], int]]] = []
        for position, param in enumerate(kernel.params):
            if param.is_memory:
                # Equal for parameters that ask the same of a buffer.
                asks = (param.dtype, param.kind, param.access, kernel.index)
                self.keys[position] = known.setdefault(asks, object())
            else:
                scalars.append((position, _converter(param.dtype)))
        self._memory, self._scalars = tuple(self.keys.items()), tuple(scalars)
        self._apart = _pairs(kernel)
        self._sizes = _sizes(kernel) if kernel.turns is None else None
        self._most = tuple(kernel.index.max // width for width in kernel.manifest.workgroup)

    def __call__(self, args: Sequence[Any], grid: Any) -> Command | None:
        """The command of a launch; None where the full check is needed."""
        if len(args) != self._count or self._sizes is None:
            return None
        try:
            bindings = [args[at].bound[key] for at, key in self._memory]
            scalars = [convert(args[at]) for at, convert in self._scalars]
            sizes = self._sizes(bindings, args) if grid is None else _stated(grid)
        except (AttributeError, KeyError, Unusual, OverflowError, ZeroDivisionError):
            return None
        for i, j in self._apart:
            a, b = bindings[i], bindings[j]
            if (
                a.allocation.serial == b.allocation.serial
                and a.offset < b.offset + b.nbytes
                and b.offset < a.offset + a.nbytes
            ):
                return None
        x, y, z = sizes
        most = self._most
        if not (0 <= x <= most[0] and 0 <= y <= most[1] and 0 <= z <= most[2]):
            return None
        if x * y * z > MAX_GROUPS:
            return None
        kernel = self._kernel
        base = kernel.faults[0].base if kernel.faults else 0
        parts = (kernel, tuple(bindings), tuple(scalars), sizes, base)
        return cast(Command, _new(Command, parts))


def _pairs(kernel: LoadedKernel) -> tuple[tuple[int, int], ...]:
    """The buffer parameters that must not share memory, in pairs."""
    memory = kernel.memory
    return tuple(
        (i, j)
        for i, a in enumerate(memory)
        for j, b in enumerate(memory[:i])
        if (a.access.writes or b.access.writes) and not (a.may_alias and b.may_alias)
    )


def _converter(dtype: DType) -> Callable[[Any], int]:
    """From a number of Python to its bit pattern; Unusual where that takes a closer look."""
    if dtype.is_bool:
        return _bool_bits
    if dtype.is_int:
        low, high, mask = int(dtype.min), int(dtype.max), (1 << dtype.bits) - 1

        def int_bits(value: Any) -> int:
            if type(value) is int and low <= value <= high:
                return value & mask
            raise Unusual

        return int_bits
    if dtype.name not in _PACK:
        return _unusual
    real, whole = (struct.Struct(form) for form in _PACK[dtype.name])
    pack, unpack = real.pack, whole.unpack

    def float_bits(value: Any) -> int:
        if type(value) is float:
            if value == value:  # a NaN has many patterns
                return cast(int, unpack(pack(value))[0])  # OverflowError beyond the type
        elif type(value) is int and -_EXACT <= value <= _EXACT:
            return cast(int, unpack(pack(float(value)))[0])
        raise Unusual

    return float_bits


def _bool_bits(value: Any) -> int:
    if value is True:
        return 1
    if value is False:
        return 0
    raise Unusual


def _unusual(value: Any) -> int:
    raise Unusual


def _stated(grid: Any) -> Grid:
    if type(grid) is tuple and len(grid) == 3:
        x, y, z = grid
        if type(x) is int and type(y) is int and type(z) is int:
            return x, y, z
    raise Unusual


def _sizes(kernel: LoadedKernel) -> Callable[[Sequence[Binding], Sequence[Any]], Grid] | None:
    """What computes the grid; None where it takes a closer look."""
    stated = kernel.manifest.grid
    if stated is None:
        return _ask_for_grid
    try:
        sizes = [_size(kernel, part) for part in stated]
    except (Unusual, ValueError, KeyError, TypeError):  # malformed: a launch says so
        return None
    constant = [part if type(part) is int else None for part in stated]
    x, y, z = sizes
    if constant[1] is not None and constant[2] is not None:
        height, depth = constant[1], constant[2]
        return lambda bindings, args: (x(bindings, args), height, depth)
    return lambda bindings, args: (x(bindings, args), y(bindings, args), z(bindings, args))


def _ask_for_grid(bindings: Sequence[Binding], args: Sequence[Any]) -> Grid:
    raise Unusual


def _size(kernel: LoadedKernel, part: Any) -> Size:
    """One grid expression (see `ir.abi`) as a function."""
    if type(part) is int:
        return lambda bindings, args: part
    kind, *rest = part
    if kind == "count":
        at = [p.name for p in kernel.memory].index(rest[0])
        return lambda bindings, args: bindings[at].elements
    if kind == "scalar":
        place = [p.name for p in kernel.params].index(rest[0])
        if not kernel.params[place].dtype.is_int:
            raise Unusual
        return lambda bindings, args: args[place]
    a, b = (_size(kernel, operand) for operand in rest)
    if kind == "ceil_div" and type(rest[1]) is int:
        divisor = rest[1]
        return lambda bindings, args: -(-a(bindings, args) // divisor)
    operation = GRID_OPS[kind]
    return lambda bindings, args: operation(a(bindings, args), b(bindings, args))
