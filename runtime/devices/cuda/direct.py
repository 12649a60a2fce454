"""The shortest way from the arguments of a launch to the driver, for launches that are as usual.

The driver's own launch takes four microseconds, and Python's way to it should not take as many
again. So the checks of `binder`, the filling of the parameter block and the driver's call are one
function, written out for each kernel. It submits the launch, or says that it did not: then the
usual way does, or tells what is wrong. For saxpy(x, y, a):

    def direct(args, grid):
        nonlocal last_p0, last_p1, last_a2, last_grid
        try:
            (p0 and p1: what the buffers a0 and a1 are bound to; both raise for others)
            if not (p0 is last_p0 and ... and grid is last_grid):
                last_grid = unset
                (what `binder` checks; addresses u0, u1, values s2, counts e0, e1, grid x, y, z)
                pack(u0, u1, s2, e0, e1, x, y, z, x, y, z)
                last_p0, last_p1, last_a2, last_grid = p0, p1, a2, grid
        except Exception: return None
        queue.busy = True
        if now() == here and get_ident() in threads: status = submit()
        else:
            with context: status = submit()
        if status: raise failed(status)
        return True

Arguments that are the very objects of the launch before are neither checked nor packed again: what
is compared so does not change (a buffer that is freed drops out of those that are bound).
`submit` is cuLaunchKernelEx through ctypes, with four pointers that stay the same: the launch's
configuration lies behind its parameters, and one `pack` fills both. That costs less than
converting the eleven arguments of cuLaunchKernel does.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

from ...binder import BEYOND, Direct, Lines
from ...launch import Grid, LoadedKernel
from ...straight import written
from ..parameters import parameter_format
from .api import library

if TYPE_CHECKING:
    from .device import CudaDevice
    from .modules import Code


_UNSET = object()


class _Config(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    )


def direct_way(device: CudaDevice, kernel: LoadedKernel) -> Direct | None:
    """What launches a kernel of a device; None where that takes the usual way."""
    code: Code = kernel.code
    context, lines = device._context, Lines(kernel)
    try:
        text = _text(lines, device.capabilities.limits.grid, code.sited)
        pack, submit = _submission(device, kernel)
        make: Callable[[], Direct] = written(
            "make",
            text,
            **lines.known,
            unset=_UNSET,
            pack=pack,
            submit=submit,
            context=context,
            now=context.now,
            here=context.here,
            threads=context.threads,
            get_ident=get_ident,
            queue=device._queue,
            faultmap=device._map,
            faults=device._map.address,
            base=kernel.faults[0].base if kernel.faults else 0,
            failed=functools.partial(_failed, device, code),
        )
    except (*BEYOND, OSError, AttributeError):  # the last two: the library has another name
        return None
    return make()


def _text(lines: Lines, limits: Grid, sited: bool) -> str:
    """The text of what makes the function; raises what is in BEYOND."""
    seen = [*(f"p{n}" for n in lines.buffers), *(f"a{n}" for n in lines.scalars), "grid"]
    before = [f"last_{name}" for name in seen]
    values = [*(f"u{n}" for n in lines.buffers), *(f"s{n}" for n in lines.scalars)]
    values += [f"e{n}" for n in lines.buffers]
    values += ["faults", "base"] if sited else []
    same = " and ".join(f"{a} is {b}" for a, b in zip(seen, before, strict=True))
    text = f"""\
def direct(args, grid):
    nonlocal {", ".join(before)}
    try:
{"".join(lines.begin())}        if not ({same}):
            last_grid = unset
{"".join(f"    {line}" for line in lines.checks(1, limits, floats=True))}\
            pack({", ".join([*values, *"xyzxyz"])})
            {", ".join(before)} = {", ".join(seen)}
    except Exception: return None
    queue.busy = True
    {"faultmap.dirty = True" if sited else ""}
    if now() == here and get_ident() in threads: status = submit()
    else:
        with context: status = submit()
    if status: raise failed(status)
    return True
"""
    inner = "".join(f"    {line}\n" for line in text.splitlines())
    return f"def make():\n    {' = '.join(before)} = unset\n{inner}    return direct\n"


def _submission(
    device: CudaDevice, kernel: LoadedKernel
) -> tuple[Callable[..., None], Callable[[], int]]:
    """What fills parameters and grid, and what launches with them."""
    code: Code = kernel.code
    numbers = parameter_format(kernel.params, code.sited, floats=True)
    packed = struct.Struct(numbers)
    start = -(-packed.size // 8) * 8
    block = ctypes.create_string_buffer(start + ctypes.sizeof(_Config))
    config = _Config.from_buffer(block, start)
    config.block[:] = code.block
    config.shared, config.stream = code.shared, device.stream
    base = ctypes.addressof(block)
    places = (ctypes.c_void_p * len(code.places))(*(base + at for at in code.places))
    both = struct.Struct(f"{numbers}{start - packed.size}x3I")
    function = library().cuLaunchKernelEx
    handle = ctypes.c_void_p(int(code.function))
    # The call keeps what it is given, and by it `block` and `places`.
    submit = functools.partial(function, ctypes.byref(config), handle, places, None)
    return functools.partial(both.pack_into, block, 0), submit


def _failed(device: CudaDevice, code: Code, status: int) -> Exception:
    return code.launch_error(device.api.drv.CUresult(status), "cuLaunchKernelEx")
