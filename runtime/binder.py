"""The quick way from arguments to a command, for launches with which nothing is wrong.

It takes what it knows to be right: buffers that a full check has bound to such a parameter before,
numbers of the plain types within their range. For all else it gives None, and `arguments.bind`
checks again and says what is wrong. Nothing is left unchecked; it is what a launch from Python
costs that is kept small. So it is written out for each kernel; for saxpy(x, y, a):

    def quick(args, grid):
        try:
            a0, a1, a2, = args
            b0, p0 = a0.bound[k0]
            b1, p1 = a1.bound[k1]
            g0, o0, n0, e0, u0 = p0
            g1, o1, n1, e1, u1 = p1
            f2 = a2 if type(a2) is float else whole(a2)
            if f2 != f2: return None
            s2, = bits2(pack2(f2))
            if grid is None:
                x, y, z = (-(-e1 // 64)), 1, 1
                if not 0 <= x <= 33554431: return None
            else:
                x, y, z = stated(grid)
                if not (0 <= x <= 33554431 and ... and x * y * z <= 4294967295): return None
            if g1 == g0 and o1 < o0 + n0 and o0 < o1 + n1: return None
        except Exception: return None
        return new(Command, (kernel, (b0, b1, ), (s2, ), (x, y, z), base))

A driver may write the whole way to its hardware out like this, from the same lines (`Lines`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import DType
from ..ir.interface import Param
from .launch import MAX_GROUPS, Command, Grid
from .straight import row, written

if TYPE_CHECKING:
    from .launch import LoadedKernel

Quick = Callable[[Sequence[Any], Any], Command | None]
# The same, and it submits the command: true where it did.
Direct = Callable[[Sequence[Any], Any], bool | None]
_EXACT = 1 << 24  # integers up to here are f32 values, and f64 ones
_PACK = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}
_MOST_PAIRS = 256  # of buffers that must lie apart: for more, the text would be long
_OVERLAP = "g{0} == g{1} and o{0} < o{1} + n{1} and o{1} < o{0} + n{0}"
_TOGETHER = "g{0} == g{1}"
_IN_PART = f"{_OVERLAP} and (o{{0}} != o{{1}} or n{{0}} != n{{1}})"
_REFUSE = "return None\n"
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


# What takes a closer look, a malformed grid, or one too deep for Python's own compiler (the last
# three): the full check of each launch says so.
BEYOND = Unusual, KeyError, TypeError, ValueError, SyntaxError, RecursionError, MemoryError


class Lines:
    """The lines that check the arguments of one kernel, `args` and `grid`, and name what they are.

    Of parameter n, a buffer: its binding b{n} and place p{n}, out of that the allocation's serial
    number g{n}, offset o{n}, nbytes n{n}, elements e{n} and address u{n}; a scalar: its bit pattern
    s{n}, or as a number where a float is wanted so. The grid: x, y, z. They return None for what
    they do not know to be right.

    known: what their other names mean.
    """

    def __init__(self, kernel: LoadedKernel) -> None:
        self.kernel = kernel
        self.buffers = [n for n, p in enumerate(kernel.params) if p.is_memory]
        self.scalars = [n for n, p in enumerate(kernel.params) if not p.is_memory]
        self.known: dict[str, Any] = {"stated": _stated, "whole": _whole}

    def begin(self) -> Iterator[str]:
        """The first lines, which find out what the buffers are bound to."""
        yield f"        {row(f'a{n}' for n in range(len(self.kernel.params)))} = args\n"
        for n in self.buffers:
            self.known[f"k{n}"] = self.kernel.keys[n]
            yield f"        b{n}, p{n} = a{n}.bound[k{n}]\n"

    def checks(self, least: int, limits: Grid, floats: bool = False) -> Iterator[str]:
        """The others, for grids with dimensions from `least` to `limits`. floats: as numbers.

        Raises Unusual and what else is in BEYOND.
        """
        if self.kernel.turns is not None:
            raise Unusual
        for n in self.buffers:
            yield f"        g{n}, o{n}, n{n}, e{n}, u{n} = p{n}\n"
        for n in self.scalars:
            yield from self._scalar(n, self.kernel.params[n].dtype, floats)
        yield from self._grids(least, limits)
        pairs = _pairs(self.kernel)
        if len(pairs) > _MOST_PAIRS:
            raise Unusual
        for i, j, wrong in pairs:
            yield f"        if {wrong.format(i, j)}: {_REFUSE}"

    def _scalar(self, n: int, dtype: DType, floats: bool) -> Iterator[str]:
        """From a number of Python to its bit pattern."""
        if dtype.is_bool:
            yield f"        if a{n} is not True and a{n} is not False: {_REFUSE}"
            yield f"        s{n} = 1 if a{n} else 0\n"
        elif dtype.is_int:
            low, high = int(dtype.min), int(dtype.max)
            yield f"        if type(a{n}) is not int or not {low} <= a{n} <= {high}: {_REFUSE}"
            yield f"        s{n} = a{n} & {(1 << dtype.bits) - 1}\n"
        elif dtype.name in _PACK:
            to = "s" if floats else "f"
            yield f"        {to}{n} = a{n} if type(a{n}) is float else whole(a{n})\n"
            yield f"        if {to}{n} != {to}{n}: {_REFUSE}"  # a NaN has many patterns
            if not floats:
                real, bits = (struct.Struct(form) for form in _PACK[dtype.name])
                self.known[f"pack{n}"], self.known[f"bits{n}"] = real.pack, bits.unpack
                yield f"        s{n}, = bits{n}(pack{n}(f{n}))\n"  # OverflowError beyond the type
        else:
            raise Unusual

    def _grids(self, least: int, limits: Grid) -> Iterator[str]:
        kernel, parts = self.kernel, self.kernel.manifest.grid
        largest = int(kernel.index.max)
        widths = kernel.manifest.workgroup
        most = [min(largest // w, limit) for w, limit in zip(widths, limits, strict=True)]
        yield "        if grid is None:\n"
        if parts is None:
            yield f"            {_REFUSE}"
        else:
            x, y, z = (_size(kernel, part) for part in parts)
            yield f"            x, y, z = {x}, {y}, {z}\n"
            yield from _within(parts, least, most)
        yield "        else:\n"
        yield "            x, y, z = stated(grid)\n"
        yield from _within((None, None, None), least, most)


def _within(parts: Sequence[Any], least: int, most: Sequence[int]) -> Iterator[str]:
    """A check of x, y and z, as far as the parts of the grid are no numbers within the bounds."""
    sizes = [part if type(part) is int else size for part, size in zip(parts, most, strict=True)]
    checks = [
        f"{least} <= {axis} <= {size}"
        for axis, part, size in zip("xyz", parts, most, strict=True)
        if type(part) is not int or not least <= part <= size
    ]
    if math.prod(sizes) > MAX_GROUPS:
        checks.append(f"x * y * z <= {MAX_GROUPS}")
    if checks:
        yield f"            if not ({' and '.join(checks)}): {_REFUSE}"


def quick_way(kernel: LoadedKernel) -> Quick:
    """What binds the arguments of one kernel: a command, or None where the full check is needed."""
    lines = Lines(kernel)
    try:
        text = "def quick(args, grid):\n    try:\n" + "".join(lines.begin())
        text += "".join(lines.checks(0, (MAX_GROUPS, MAX_GROUPS, MAX_GROUPS)))
        bindings, scalars = (f"b{n}" for n in lines.buffers), (f"s{n}" for n in lines.scalars)
        # An argument may be anything, and its attributes raise anything: the full check says what.
        text += f"    except Exception: {_REFUSE}"
        values = f"kernel, {row(bindings)}, {row(scalars)}, (x, y, z), base"
        text += f"    return new(Command, ({values}))"
        new = tuple.__new__  # a third of what the constructor of a named tuple costs
        base = kernel.faults[0].base if kernel.faults else 0
        known = lines.known | {"kernel": kernel, "Command": Command, "new": new, "base": base}
        quick: Quick = written("quick", text, **known)
    except BEYOND:
        return lambda args, grid: None
    return quick


def _pairs(kernel: LoadedKernel) -> list[tuple[int, int, str]]:
    """The positions of buffers that may not share memory, in pairs, or only all of it: with what
    is wrong then."""
    memory = [(n, p) for n, p in enumerate(kernel.params) if p.is_memory]
    shared = kernel.device.capabilities.shared_arena

    def wrong(a: Param, b: Param) -> str:
        if not shared:
            return _TOGETHER
        return _IN_PART if a.may_alias and b.may_alias else _OVERLAP

    return [
        (i, j, wrong(a, b))
        for at, (i, a) in enumerate(memory)
        for j, b in memory[:at]
        if a.access.writes or b.access.writes
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
        return f"e{n}"
    if kind == "scalar" and param.dtype.is_int and not param.is_memory:
        return f"a{n}"
    raise Unusual
