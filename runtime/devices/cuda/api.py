"""NVIDIA's driver API: the functions of `cuda.bindings.driver` and what their statuses mean.

The only module that imports the package; it is not typed, so handles are `Any` from here on.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ...errors import DeviceLost, DriverError, GristmillError, NoDevice

_BINDINGS = "cuda.bindings.driver"
OUT_OF_MEMORY = 2
UNAVAILABLE = 46
NOT_READY = 600
OLDEST_DRIVER = 12000  # CUDA 12.0: driver 525

# Statuses that stay: the context is beyond use, every later call reports the same.
_LOST = {
    4: "the driver shuts down",
    UNAVAILABLE: "the device is not to be had any more",
    214: "an ECC error that cannot be corrected",
    220: "an NVLink error that cannot be corrected",
    226: "a contained error",
    700: "an illegal memory address",
    702: "a launch that took too long for the display's watchdog",
    709: "a destroyed context",
    710: "a trap in a kernel",
    714: "a fault of the hardware stack",
    715: "an illegal instruction",
    716: "a misaligned address",
    717: "an address of the wrong space",
    718: "an invalid program counter",
    719: "a failed launch",
    999: "an unknown error",
}
_MISSING = {
    34: "the installed libcuda.so.1 is a stub of the toolkit",
    100: "the driver finds no CUDA device",
    101: "the device ordinal is not valid",
    803: "libcuda.so.1 and the kernel's driver are of different versions",
    804: "the driver does not support this CUDA release on this device",
}


class Api:
    """drv: the module of functions (tests put a stand-in there). version: as 13000 for 13.0."""

    def __init__(self) -> None:
        driver = bindings()
        self.drv: Any = driver
        try:
            (status,) = driver.cuInit(0)
            _, self.version = driver.cuDriverGetVersion()
        except (RuntimeError, OSError) as error:  # no libcuda.so.1, or one without a function
            raise NoDevice(
                f"no usable NVIDIA driver ({error})", do="install the NVIDIA driver of the device"
            ) from error
        if int(status):
            name, text = self._named(status)
            raise NoDevice(
                f"cuInit failed with {name} ({int(status)}): {_MISSING.get(int(status), text)}",
                do="check that nvidia-smi shows the device and that this user may open it",
            )
        if self.version < OLDEST_DRIVER:
            raise NoDevice(
                "the NVIDIA driver is too old",
                expected=f"CUDA {release(OLDEST_DRIVER)} (driver 525) or later",
                got=f"CUDA {release(self.version)}",
                do="install a newer driver",
            )

    def has(self, name: str) -> bool:
        """Whether the bindings know a function; the driver may still lack it."""
        return hasattr(self.drv, name)

    def call(self, name: str, *args: Any) -> Any:
        """Call a function: its results (one bare, several as a tuple), or the error by type."""
        try:
            status, *results = getattr(self.drv, name)(*args)
        except RuntimeError as error:  # the bindings know it and the driver has it not
            raise DriverError(name, 0, f"a driver without it: {error}") from error
        if status:
            raise self.error(status, name)
        return results[0] if len(results) == 1 else tuple(results)

    def error(self, status: Any, call: str, where: str = "", do: str = "") -> GristmillError:
        """DeviceLost for a status that stays, DriverError else."""
        name, text = self._named(status)
        code = int(status)
        if code in _LOST:
            return DeviceLost(
                f"{call} reports {name} ({code}): {_LOST[code]}",
                where=where,
                do=do or "every user of the device in this process has lost it; start a new one",
            )
        return DriverError(call, code, f"{name}: {text}", where, do)

    def _named(self, status: Any) -> tuple[str, str]:
        names = []
        for function in (self.drv.cuGetErrorName, self.drv.cuGetErrorString):
            failed, text = function(status)
            names.append("unknown" if failed or text is None else text.decode("utf-8", "replace"))
        return names[0], names[1]


def library() -> ctypes.CDLL:
    """The driver's library itself; OSError where it has another name than on Linux."""
    return ctypes.CDLL("libcuda.so.1")


def bindings() -> Any:
    """The module of functions; NoDevice without the package."""
    try:
        return importlib.import_module(_BINDINGS)
    except ImportError as error:
        raise NoDevice(
            f"the cuda-bindings package cannot be imported ({error})",
            do="pip install 'gristmill[cuda]'",
        ) from error


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """The driver starts while Python imports what is imported inside: either takes tens of
    milliseconds. Nothing where the bindings are imported already: somebody uses the driver."""
    thread = None
    if _BINDINGS not in sys.modules:
        thread = threading.Thread(target=_start)
        thread.start()
    try:
        yield
    finally:
        if thread is not None:
            thread.join()


def _start() -> None:
    """What goes wrong here goes wrong again, and is told, where the bindings start the driver."""
    with contextlib.suppress(OSError, AttributeError):
        library().cuInit(0)


def release(version: int) -> str:
    """13000 as "13.0"."""
    return f"{version // 1000}.{version % 1000 // 10}"
