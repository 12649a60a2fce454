"""The HSA runtime library, libhsa-runtime64: its functions through ctypes, and what its statuses
mean.

Numbers are those of hsa.h and hsa_ext_amd.h. Handles are 64-bit numbers. Calls let other threads of
Python run, but for those in `_QUICK`, which neither wait nor call back: to get the interpreter back
could take a busy process milliseconds.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import DeviceLost, DriverError, GristmillError, NoDevice

T = TypeVar("T")
VARIABLE = "GRISTMILL_HSA_LIBRARY"
# Asks the library to put the packets of queues into the GPU's own memory.
QUEUES_IN_DEVICE_MEMORY = "HSA_ALLOCATE_QUEUE_DEV_MEM"
NAMES = (
    "libhsa-runtime64.so.1",
    "/opt/rocm/lib/libhsa-runtime64.so.1",
    "libhsa-runtime64.so",
)

OUT_OF_RESOURCES, FATAL = 0x1008, 0x1026
INVALID_ARGUMENT, INVALID_ALLOCATION = 0x1001, 0x1003
STATUSES = {
    40: "invalid memory pool",
    41: "a memory access beyond the greatest address",
    42: "an illegal instruction",
    43: "an access to memory that is not there",
    45: "more registers than the device has",
    46: "a busy resource",
    47: "not supported",
    0x1000: "an error without a name",
    INVALID_ARGUMENT: "an invalid argument",
    0x1002: "a queue that cannot be had",
    INVALID_ALLOCATION: "an allocation that is too large",
    0x1004: "an invalid agent",
    0x1006: "an invalid signal",
    0x1007: "an invalid queue",
    OUT_OF_RESOURCES: "out of resources",
    0x1009: "an invalid packet",
    0x100B: "the runtime is not initialised",
    0x100D: "incompatible arguments",
    0x100F: "an invalid instruction set",
    0x1010: "an invalid code object",
    0x1011: "an invalid executable",
    0x1013: "no such symbol",
    0x1016: "an exception in a kernel",
    FATAL: "the runtime is beyond repair",
}

_H, _U32, _U64 = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint64
_I64, _SIZE, _P, _INT = ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
VISIT = ctypes.CFUNCTYPE(_U32, _H, _P)  # what the library calls for each agent, ISA or pool
QUEUE_ERROR = ctypes.CFUNCTYPE(None, _U32, _P, _P)
EVENT = ctypes.CFUNCTYPE(_U32, _P, _P)
# name -> result, arguments. A result of c_uint32 is a status.
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "hsa_init": (_U32, []),
    "hsa_shut_down": (_U32, []),
    "hsa_system_get_info": (_U32, [_INT, _P]),
    "hsa_iterate_agents": (_U32, [VISIT, _P]),
    "hsa_agent_get_info": (_U32, [_H, _INT, _P]),
    "hsa_agent_iterate_isas": (_U32, [_H, VISIT, _P]),
    "hsa_isa_get_info_alt": (_U32, [_H, _INT, _P]),
    "hsa_amd_agent_iterate_memory_pools": (_U32, [_H, VISIT, _P]),
    "hsa_amd_memory_pool_get_info": (_U32, [_H, _INT, _P]),
    "hsa_amd_memory_pool_allocate": (_U32, [_H, _SIZE, _U32, _P]),
    "hsa_amd_memory_pool_free": (_U32, [_P]),
    "hsa_amd_agents_allow_access": (_U32, [_U32, _P, _P, _P]),
    "hsa_amd_memory_async_copy": (_U32, [_P, _H, _P, _H, _SIZE, _U32, _P, _H]),
    "hsa_signal_create": (_U32, [_I64, _U32, _P, _P]),
    "hsa_signal_destroy": (_U32, [_H]),
    "hsa_signal_load_scacquire": (_I64, [_H]),
    "hsa_signal_store_relaxed": (None, [_H, _I64]),
    "hsa_signal_store_screlease": (None, [_H, _I64]),
    "hsa_signal_wait_scacquire": (_I64, [_H, _INT, _I64, _U64, _INT]),
    "hsa_queue_create": (_U32, [_H, _U32, _U32, QUEUE_ERROR, _P, _U32, _U32, _P]),
    "hsa_queue_destroy": (_U32, [_P]),
    "hsa_queue_load_read_index_scacquire": (_U64, [_P]),
    "hsa_queue_load_write_index_relaxed": (_U64, [_P]),
    "hsa_queue_add_write_index_screlease": (_U64, [_P, _U64]),
    "hsa_code_object_reader_create_from_memory": (_U32, [_P, _SIZE, _P]),
    "hsa_code_object_reader_destroy": (_U32, [_H]),
    "hsa_executable_create_alt": (_U32, [_INT, _INT, _P, _P]),
    "hsa_executable_load_agent_code_object": (_U32, [_H, _H, _H, _P, _P]),
    "hsa_executable_freeze": (_U32, [_H, _P]),
    "hsa_executable_destroy": (_U32, [_H]),
    "hsa_executable_get_symbol_by_name": (_U32, [_H, ctypes.c_char_p, _P, _P]),
    "hsa_executable_symbol_get_info": (_U32, [_H, _INT, _P]),
    "hsa_amd_profiling_set_profiler_enabled": (_U32, [_P, _INT]),
    "hsa_amd_profiling_get_dispatch_time": (_U32, [_H, _H, _P]),
    "hsa_amd_register_system_event_handler": (_U32, [EVENT, _P]),
}
_QUICK = (
    "hsa_signal_load_scacquire",
    "hsa_signal_store_relaxed",
    "hsa_signal_store_screlease",
    "hsa_queue_load_read_index_scacquire",
    "hsa_queue_add_write_index_screlease",
)


class Api:
    """A use of the library, which counts its users; `close` ends it. fn: functions by name."""

    def __init__(self, library: str | None = None) -> None:
        _check_host()
        self.path, loaded = _load(library)
        self.fn = {name: _function(loaded, self.path, name) for name in _FUNCTIONS}
        status = self.fn["hsa_init"]()
        if status:
            raise _cannot_start(status, self.path)

    def close(self) -> None:
        """Let go of the library."""
        self.call("hsa_shut_down")

    def call(self, name: str, *args: Any, where: str = "") -> None:
        """Call a function that gives a status; the error by type where it is one."""
        status = self.fn[name](*args)
        if status:
            raise self.error(status, name, where)

    def made(self, name: str, *args: Any, where: str = "") -> int:
        """The handle or address that a function puts into its last argument."""
        made = ctypes.c_uint64()
        self.call(name, *args, ctypes.byref(made), where=where)
        return made.value

    def error(self, status: int, call: str, where: str = "", do: str = "") -> GristmillError:
        """DeviceLost for a status that stays, DriverError else."""
        if status == FATAL:
            return DeviceLost(f"{call} reports that {named(status)}", where=where, do=do)
        return DriverError(call, status, named(status), where, do)

    def get(self, name: str, handle: int, which: int, kind: type[T], where: str = "") -> T:
        """Information of a fixed size about a handle, as a value of a ctypes type."""
        value = kind()
        self.call(name, handle, which, ctypes.byref(value), where=where)  # type: ignore[arg-type]
        return value

    def told(self, name: str, handle: int, which: int, kind: type[T]) -> T | None:
        """The same; None where this release of the library does not know the question."""
        value = kind()
        status = self.fn[name](handle, which, ctypes.byref(value))  # type: ignore[arg-type]
        if status == INVALID_ARGUMENT:
            return None
        if status:
            raise self.error(status, name)
        return value

    def each(self, name: str, *args: Any) -> list[int]:
        """The handles that a function goes through."""
        found: list[int] = []

        def visit(handle: int, data: Any) -> int:
            found.append(handle)
            return 0

        self.call(name, *args, VISIT(visit), None)
        return found

    def system(self, which: int, kind: type[T]) -> T:
        """Information about the runtime: 0 and 1 its version, 3 ticks of its clock in a second."""
        value = kind()
        self.call("hsa_system_get_info", which, ctypes.byref(value))  # type: ignore[arg-type]
        return value


def named(status: int) -> str:
    """A status in words, and as hsa.h has it."""
    return f"{STATUSES.get(status, 'unknown')}, {status:#x}"


def _check_host() -> None:
    """NoDevice where packets would not become visible in the order in which they are stored."""
    if os.uname().machine != "x86_64":
        raise NoDevice("HSA queues are written to by x86-64 hosts only", got=os.uname().machine)
    if os.environ.get(QUEUES_IN_DEVICE_MEMORY, "0") not in ("", "0"):
        raise NoDevice(
            "HSA queues are written to in host memory only: writes to a GPU's memory may be"
            " combined and reordered",
            expected=f"{QUEUES_IN_DEVICE_MEMORY} to be 0",
            got=os.environ[QUEUES_IN_DEVICE_MEMORY],
            do=f"unset {QUEUES_IN_DEVICE_MEMORY}",
        )


def _load(library: str | None) -> tuple[str, tuple[ctypes.CDLL, ctypes.PyDLL]]:
    chosen = library or os.environ.get(VARIABLE)
    names, why = (chosen,) if chosen else NAMES, ""
    for name in names:
        try:
            return name, (ctypes.CDLL(name), ctypes.PyDLL(name))
        except OSError as error:
            why = str(error)
    raise NoDevice(
        f"the HSA runtime cannot be loaded from {' or '.join(names)} ({why})",
        do=f"install ROCm's HSA runtime, or name its library in {VARIABLE}",
    )


def _function(loaded: tuple[ctypes.CDLL, ctypes.PyDLL], path: str, name: str) -> Callable[..., int]:
    try:
        function = getattr(loaded[name in _QUICK], name)
    except AttributeError as error:
        raise NoDevice(
            f"the HSA runtime {path} has no function {name}",
            do="install a release of ROCm 6 or later",
        ) from error
    function.restype, function.argtypes = _FUNCTIONS[name]
    found: Callable[..., int] = function
    return found


def _cannot_start(status: int, path: str) -> NoDevice:
    do = "check that rocminfo shows the device and that this user may open /dev/kfd"
    if not os.path.exists("/dev/kfd"):
        do = "load the kernel's amdgpu driver: there is no /dev/kfd"
    elif not os.access("/dev/kfd", os.R_OK | os.W_OK):
        do = "let this user open /dev/kfd (groups render and video)"
    return NoDevice(f"hsa_init of {path} failed: {named(status)}", do=do)
