"""Checking the arguments of a launch and turning them into bindings and bit patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.interface import Param
from .errors import ArgumentError, LimitExceeded, StateError, expect
from .hazards import Binding, overlap
from .launch import Command, LoadedKernel
from .memory import Allocation, Array, Buffer, conversion_to, scalar_value_bits

if TYPE_CHECKING:
    from .binder import Quick
    from .device import Device

# What turns a host array into a binding; None where only device buffers are taken.
HostBinder = Callable[[Param, Array], Binding]


def positional(kernel: LoadedKernel, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """All arguments in the order of the parameters; ArgumentError on any that is odd or missing."""
    names = [p.name for p in kernel.params]
    given = dict(zip(names, args, strict=False))
    unknown = [n for n in named if n not in names]
    twice = [n for n in named if n in given]
    missing = [n for n in names if n not in given and n not in named]
    if len(args) > len(names) or unknown or twice or missing:
        problems = [
            *([f"{len(args)} positional arguments"] if len(args) > len(names) else []),
            *(f"no parameter {n}" for n in unknown),
            *(f"{n} given twice" for n in twice),
            *(f"{n} is missing" for n in missing),
        ]
        raise ArgumentError(
            "wrong arguments: " + ", ".join(problems),
            where=f"kernel {kernel.name}",
            expected=f"{len(names)} ({', '.join(map(_describe, kernel.params))})",
        )
    given.update(named)
    return [given[n] for n in names]


def _describe(param: Param) -> str:
    access = f" {param.access.value}" if param.kind == "buffer" else ""
    return f"{param.name}: {param.dtype} {param.kind}{access}"


def checked(
    device: Device, kernel: LoadedKernel, args: Sequence[Any], named: Mapping[str, Any], grid: Any
) -> Command:
    """The command of a launch on a device with its own buffers and scalars; raises as `bind`."""
    if not isinstance(kernel, LoadedKernel):
        expect(kernel, LoadedKernel, device.name)
    if kernel.device is not device:
        raise StateError(
            f"kernel {kernel.name} was loaded on another device",
            expected=device.name,
            got=kernel.device.name,
        )
    if kernel.choice is not None:
        args, named = positional(kernel, args, named), {}
        kernel = kernel.choice.of(args, grid)
    if not named:
        command = (kernel.quick or way_of(kernel))(args, grid)
        if command is not None:
            return command
    return bind(kernel, positional(kernel, args, named), grid)


def way_of(kernel: LoadedKernel) -> Quick:
    """The quick way from arguments to a command (see `binder`)."""
    from .binder import quick_way  # not for those who only call with arrays

    kernel.quick = quick_way(kernel)
    return kernel.quick


def adopted(device: Device, value: Any) -> Buffer:
    """A buffer on another library's memory; ArgumentError where that is not on the device."""
    if isinstance(value, Buffer):
        device._own(value)
        expect(value.allocation, Allocation, device.name)  # StateError where it was freed
        return value
    found = device._foreign(value, device.name)
    if found is None:
        raise ArgumentError(
            "no memory of this device",
            where=device.name,
            expected="an object with __dlpack__ or __cuda_array_interface__ on it",
            got=type(value).__name__,
            do="upload it",
        )
    return found


def bind(
    kernel: LoadedKernel, args: Sequence[Any], grid: Any, host: HostBinder | None = None
) -> Command:
    """The command of a launch with these arguments, in the order of the parameters.

    Raises ArgumentError, StateError (freed, or of another device) and LimitExceeded.
    """
    bindings: list[Binding] = []
    scalars: list[int] = []
    values: dict[str, Any] = {}
    for position, (param, value) in enumerate(zip(kernel.params, args, strict=True)):
        if param.is_memory:
            bindings.append(_binding(kernel, position, value, host))
        else:
            scalars.append(scalar_value_bits(value, param.dtype, kernel.place(position)))
            # A number of Python: grids are computed without the wrap-around of numpy's.
            values[param.name] = value.item() if isinstance(value, np.generic) else value
    if any(b.writes for b in bindings):
        _check_overlap(kernel, bindings)
    fixed = tuple(bindings)
    sizes = kernel.launch_grid(fixed, values, grid)
    base = kernel.faults[0].base if kernel.faults else 0
    command = Command(kernel, fixed, tuple(scalars), sizes, base)
    kernel.check_turns(command)
    return command


def with_scalars(command: Command, changes: Mapping[str, Any]) -> Command:
    """The command with other values of by-value scalars; ArgumentError on any other name,
    LimitExceeded as for a launch."""
    kernel, scalars = command.kernel, list(command.scalars)
    names = [p.name for p in kernel.scalars]
    for name, value in changes.items():
        if name not in names:
            raise ArgumentError(
                f"no by-value scalar {name}",
                where=f"kernel {kernel.name}",
                expected=f"one of {', '.join(names) or 'none'}",
            )
        position = [p.name for p in kernel.params].index(name)
        at = names.index(name)
        scalars[at] = scalar_value_bits(value, kernel.scalars[at].dtype, kernel.place(position))
    changed = command._replace(scalars=tuple(scalars))
    kernel.check_turns(changed)
    return changed


def _binding(kernel: LoadedKernel, position: int, value: Any, host: HostBinder | None) -> Binding:
    param = kernel.params[position]
    if isinstance(value, Buffer):
        binding = _buffer_binding(kernel, position, value)
    elif host is not None and isinstance(value, np.ndarray):
        check_array(value, param, kernel.place(position))
        binding = host(param, value)
    elif (foreign := kernel.device._foreign(value, kernel.place(position))) is not None:
        binding = _buffer_binding(kernel, position, foreign)
    else:
        takes = "a numpy array or a Buffer" if host else "a Buffer of this device"
        raise ArgumentError(
            "wrong type",
            where=kernel.place(position),
            expected=f"{takes} of {param.dtype}",
            got=type(value).__name__,
            do="" if host else "upload it first",
        )
    limits = kernel.device.capabilities.limits
    if binding.elements > kernel.index.max:
        raise LimitExceeded(
            f"index {kernel.index}",
            kernel.index.max,
            binding.elements,
            kernel.place(position),
            "split the buffer or build the kernel with INDEX=i64",
        )
    if binding.nbytes > limits.binding_bytes:
        raise LimitExceeded(
            "bytes of a binding", limits.binding_bytes, binding.nbytes, kernel.place(position)
        )
    if isinstance(value, Buffer) and binding.nbytes:
        allocation, offset, nbytes, elements, _, _ = binding
        address = kernel.device._address(allocation.handle) + offset
        place = allocation.serial, offset, nbytes, elements, address
        value.bound[kernel.keys[position]] = binding, place
    return binding


def _buffer_binding(kernel: LoadedKernel, position: int, buffer: Buffer) -> Binding:
    param, device = kernel.params[position], kernel.device
    if buffer.device is not device:
        raise StateError(
            "buffer of another device",
            where=kernel.place(position),
            expected=device.name,
            got=buffer.device.name,
        )
    if buffer.dtype != param.dtype:
        raise ArgumentError(
            "wrong dtype",
            where=kernel.place(position),
            expected=str(param.dtype),
            got=str(buffer.dtype),
        )
    if param.access.writes and buffer.read_only:
        raise ArgumentError(
            "memory is read-only",
            where=kernel.place(position),
            expected="memory that may be written: the kernel writes it",
        )
    if param.kind == "slot" and buffer.count < 1:
        raise ArgumentError("an empty slot", where=kernel.place(position), expected="one element")
    alignment = device.capabilities.offset_alignment
    if buffer.offset % alignment and buffer.count:
        raise ArgumentError(
            "misaligned view",
            where=kernel.place(position),
            expected=f"an offset that is a multiple of {alignment} bytes",
            got=str(buffer.offset),
            do="start the view elsewhere or copy it to a buffer of its own",
        )
    return make_binding(device, param, buffer)


def make_binding(device: Any, param: Param, buffer: Buffer) -> Binding:
    """A binding of a checked buffer; an empty one is bound to the device's dummy."""
    reads, writes = param.access.reads, param.access.writes
    allocation = buffer.allocation
    if not buffer.count:
        return Binding(device._dummy(), 0, 0, 0, reads, writes)
    count = 1 if param.kind == "slot" else buffer.count
    return Binding(allocation, buffer.offset, count * buffer.dtype.bytes, count, reads, writes)


def check_array(array: Array, param: Param, where: str) -> None:
    """ArgumentError unless the array can stand for a buffer parameter as it is."""
    if array.dtype != param.dtype.storage:
        raise ArgumentError(
            "wrong dtype",
            where=where,
            expected=f"{param.dtype} (numpy {param.dtype.storage})",
            got=str(array.dtype),
            do=conversion_to(param.dtype),
        )
    if not array.flags.c_contiguous:
        raise ArgumentError(
            "array is not contiguous",
            where=where,
            expected="C order without gaps",
            got=f"strides {array.strides} of shape {array.shape}",
            do="pass numpy.ascontiguousarray(array)",
        )
    if param.access.writes and not array.flags.writeable:
        raise ArgumentError(
            "array is read-only", where=where, expected="a writeable array: the kernel writes it"
        )


def _check_overlap(kernel: LoadedKernel, bindings: Sequence[Binding]) -> None:
    params, shared = kernel.memory, kernel.device.capabilities.shared_arena
    for i, a in enumerate(bindings):
        for j in range(i):
            if overlap(a, bindings[j]):
                same = a[1:3] == bindings[j][1:3]
                check_may_overlap(kernel, params[j], params[i], same)
            if not shared and _together(a, bindings[j]):
                raise ArgumentError(
                    f"buffers {params[j].name} and {params[i].name} lie in one allocation",
                    where=f"kernel {kernel.name}",
                    expected="an allocation for each, because the kernel writes one of them and"
                    " the device binds none for reading and writing at once",
                    do="pass a copy",
                )


def _together(a: Binding, b: Binding) -> bool:
    """Whether one allocation would be bound twice, one of them for writing."""
    written = a.writes or b.writes
    return bool(written and a.nbytes and b.nbytes and a.allocation.serial == b.allocation.serial)


def check_may_overlap(kernel: LoadedKernel, a: Param, b: Param, same: bool) -> None:
    """ArgumentError unless two parameters of one launch may share memory; same: all that either has
    is the other's, from the same byte on."""
    written = a.access.writes or b.access.writes
    if written and a.may_alias and b.may_alias and not same:
        raise ArgumentError(
            f"buffers {a.name} and {b.name} overlap in part",
            where=f"kernel {kernel.name}",
            expected="the same memory from its first byte to its last, or separate memory: an"
            " invocation may write over only what it alone has read",
            do="pass a copy",
        )
    if written and not (a.may_alias and b.may_alias):
        raise ArgumentError(
            f"buffers {a.name} and {b.name} overlap",
            where=f"kernel {kernel.name}",
            expected="separate memory, because the kernel writes one of them",
            do="pass a copy, or declare both parameters may_alias in the kernel",
        )
