"""CUDA devices: cubin and PTX artifacts on NVIDIA GPUs, through the driver alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import NoDevice
from ..selector import chosen

if TYPE_CHECKING:
    from .api import Api
    from .device import CudaDevice


def open_device(spec: str, selector: str, timeout: float) -> CudaDevice:
    """selector: an ordinal, a part of the device's name, or "" for the first device."""
    from .api import Api, bindings, starting

    with starting():
        bindings()
        import pathlib  # noqa: F401 (what the first call would import, as are the next)

        from ... import host, selection  # noqa: F401
        from .device import CudaDevice
        from .physical import OLDEST, capability
    api = Api()
    ordinal = _choose(api, spec, selector)
    has = capability(api, api.call("cuDeviceGet", ordinal))
    if has < OLDEST:
        raise NoDevice(
            f"device {spec!r} is too old",
            expected=f"compute capability {OLDEST[0]}.{OLDEST[1]} or later",
            got=f"{has[0]}.{has[1]}",
        )
    return CudaDevice(spec, api, ordinal, timeout)


def find_devices() -> list[tuple[str, str]]:
    """Every device by ordinal; NoDevice where bindings, driver or devices are missing."""
    from .api import Api, bindings, starting

    with starting():
        bindings()
    return [(f"cuda:{n}", name) for n, name in enumerate(_names(Api()))]


def _names(api: Api) -> list[str]:
    from .physical import names

    found = names(api)
    if not found:
        raise NoDevice("the driver finds no CUDA device", do="check that nvidia-smi shows one")
    return found


def _choose(api: Api, spec: str, selector: str) -> int:
    """The ordinal that a selector means."""
    names = _names(api)
    if not selector:
        return 0
    ordinal = chosen(selector, names)
    if ordinal is not None:
        return ordinal
    listed = ", ".join(f"{n}: {name}" for n, name in enumerate(names))
    raise NoDevice(f"no device {spec!r}", expected=f"an ordinal or a part of a name of {listed}")
