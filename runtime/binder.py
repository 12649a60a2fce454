"""The quick way from arguments to a command, for launches with which nothing is wrong.

It takes what it knows to be right: buffers that a full check has bound to such a parameter before,
numbers of the plain types within their range. For all else it gives None, and `arguments.bind`
checks again and says what is wrong. Nothing is left unchecked; it is what a launch from Python
costs that is kept small. So it is written out for each kernel; for saxpy(x, y, a):

    def quick(args, grid):
        try:
            a0, a1, a2 = args
            b0 = a0.bound[k0]
            b1 = a1.bound[k1]
            f2 = a2 if type(a2) is float else whole(a2)
            if f2 != f2: return None
            s2, = bits2(pack2(f2))
            x, y, z = (-(-b1.elements // 64), 1, 1) if grid is None else stated(grid)
            if (b1.allocation.serial == b0.allocation.serial
                and b1.offset < b0.offset + b0.nbytes
                and b0.offset < b1.offset + b1.nbytes): return None
            if x < 0 or y < 0 or ... or x * y * z > 4294967295: return None
        except Exception: return None
        return new(Command, (kernel, (b0, b1, ), (s2, ), (x, y, z), base))
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from .launch import MAX_GROUPS, Command, Grid
from .straight import row, written

if TYPE_CHECKING:
    from .launch import LoadedKernel

Quick = Callable[[Sequence[Any], Any], Command | None]
_EXACT = 1 << 24  # integers up to here are f32 values, and f64 ones
_PACK = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}
_MOST_PAIRS = 256  # of buffers that must lie apart: for more, the text would be long
_OVERLAP = """\
        if (b{0}.allocation.serial == b{1}.allocation.serial
            and b{0}.offset < b{1}.offset + b{1}.nbytes
            and b{1}.offset < b{0}.offset + b{0}.nbytes): return None
"""
_TOGETHER = """\
        if b{0}.allocation.serial == b{1}.allocation.serial: return None
"""
# `ir.abi.GRID_OPS` as text.
OPERATIONS = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "floordiv": "({} // {})",
    "ceil_div": "(-(-{} // {}))",
    "min": "min({}, {})",
    "max": "max({}, {})",
}


class Unusual(Exception):  # noqa: N818 (no error: the slow way is taken)
    """Something that only the full check can judge."""


def quick_way(kernel: LoadedKernel) -> Quick:
    """What binds the arguments of one kernel: a command, or None where the full check is needed."""
    known: dict[str, Any] = {
        "kernel": kernel,
        "Command": Command,
        "new": tuple.__new__,  # a third of what the constructor of a named tuple costs
        "stated": _stated,
        "whole": _whole,
        "base": kernel.faults[0].base if kernel.faults else 0,
    }
    try:
        text = "".join(_lines(kernel, known))
        quick: Quick = written("quick", text, **known)
    except (Unusual, KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError):
        # What takes a closer look, a malformed grid, or one too deep for Python's own compiler
        # (the last three): the full check of each launch says so.
        return lambda args, grid: None
    return quick


def _lines(kernel: LoadedKernel, known: dict[str, Any]) -> Iterator[str]:
    if kernel.turns is not None:
        raise Unusual
    yield "def quick(args, grid):\n    try:\n"
    yield f"        {row(f'a{n}' for n in range(len(kernel.params)))} = args\n"
    bindings, scalars = [], []
    for n, param in enumerate(kernel.params):
        if param.is_memory:
            known[f"k{n}"] = kernel.keys[n]
            yield f"        b{n} = a{n}.bound[k{n}]\n"
            bindings.append(f"b{n}")
        else:
            yield from _scalar(n, param.dtype, known)
            scalars.append(f"s{n}")
    yield f"        x, y, z = {_grid(kernel)} if grid is None else stated(grid)\n"
    apart = _apart(kernel)
    if len(apart) > _MOST_PAIRS:
        raise Unusual
    shared = kernel.device.capabilities.shared_arena
    for i, j in apart:
        yield (_OVERLAP if shared else _TOGETHER).format(i, j)
    most = [int(kernel.index.max) // width for width in kernel.manifest.workgroup]
    wrong = [f"{axis} < 0 or {axis} > {size}" for axis, size in zip("xyz", most, strict=True)]
    yield f"        if {' or '.join(wrong)} or x * y * z > {MAX_GROUPS}: return None\n"
    # An argument may be anything, and its attributes raise anything: the full check says what.
    yield "    except Exception: return None\n"
    yield f"    return new(Command, (kernel, {row(bindings)}, {row(scalars)}, (x, y, z), base))\n"


def _scalar(n: int, dtype: DType, known: dict[str, Any]) -> Iterator[str]:
    """From a number of Python to its bit pattern."""
    if dtype.is_bool:
        yield f"        if a{n} is not True and a{n} is not False: return None\n"
        yield f"        s{n} = 1 if a{n} else 0\n"
    elif dtype.is_int:
        low, high = int(dtype.min), int(dtype.max)
        yield f"        if type(a{n}) is not int or a{n} < {low} or a{n} > {high}: return None\n"
        yield f"        s{n} = a{n} & {(1 << dtype.bits) - 1}\n"
    elif dtype.name in _PACK:
        real, bits = (struct.Struct(form) for form in _PACK[dtype.name])
        known[f"pack{n}"], known[f"bits{n}"] = real.pack, bits.unpack
        yield f"        f{n} = a{n} if type(a{n}) is float else whole(a{n})\n"
        yield f"        if f{n} != f{n}: return None\n"  # a NaN has many patterns
        yield f"        s{n}, = bits{n}(pack{n}(f{n}))\n"  # OverflowError beyond the type
    else:
        raise Unusual


def _apart(kernel: LoadedKernel) -> list[tuple[int, int]]:
    """The positions of buffers that must not share memory, in pairs."""
    memory = [(n, p) for n, p in enumerate(kernel.params) if p.is_memory]
    shared = kernel.device.capabilities.shared_arena
    return [
        (i, j)
        for at, (i, a) in enumerate(memory)
        for j, b in memory[:at]
        if (a.access.writes or b.access.writes) and not (shared and a.may_alias and b.may_alias)
    ]


def _whole(value: Any) -> float:
    if type(value) is int and -_EXACT <= value <= _EXACT:
        return float(value)
    raise Unusual


def _stated(grid: Any) -> Grid:
    if type(grid) is tuple and len(grid) == 3:
        x, y, z = grid
        if type(x) is int and type(y) is int and type(z) is int:
            return x, y, z
    raise Unusual


def _grid(kernel: LoadedKernel) -> str:
    """What computes the grid."""
    if kernel.manifest.grid is None:
        return "stated(None)"
    return row(_size(kernel, part) for part in kernel.manifest.grid)


def _size(kernel: LoadedKernel, part: Any) -> str:
    """One grid expression (see `ir.abi`) over bindings and arguments."""
    if type(part) is int:
        return f"({part})"
    kind, *rest = part
    if kind in OPERATIONS:
        a, b = rest
        return OPERATIONS[kind].format(_size(kernel, a), _size(kernel, b))
    (name,) = rest
    n = [p.name for p in kernel.params].index(name)
    param = kernel.params[n]
    if kind == "count" and param.is_memory:
        return f"b{n}.elements"
    if kind == "scalar" and param.dtype.is_int and not param.is_memory:
        return f"a{n}"
    raise Unusual
