"""AMD GPUs through HSA: code objects on user-mode queues, with ROCm's lowest library alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import NoDevice
from ..selector import chosen

if TYPE_CHECKING:
    from .agents import Agent
    from .api import Api
    from .device import HsaDevice


def open_device(spec: str, selector: str, timeout: float, library: str | None = None) -> HsaDevice:
    """selector: a number, a part of the name of the GPU or of its processor, or "" for the first.

    library: the path of libhsa-runtime64, else that in GRISTMILL_HSA_LIBRARY, else as installed.
    """
    from .agents import agents
    from .api import Api
    from .device import HsaDevice

    api = Api(library)
    try:
        everyone = agents(api)
        return HsaDevice(spec, api, everyone, _choose(api, everyone, spec, selector), timeout)
    except BaseException:
        api.close()
        raise


def find_devices() -> list[tuple[str, str]]:
    """Every GPU by number; NoDevice where library, driver or GPUs are missing."""
    from .agents import agents
    from .api import Api

    api = Api()
    try:
        return [(f"hsa:{n}", gpu.title) for n, gpu in enumerate(_gpus(api, agents(api)))]
    finally:
        api.close()


def _gpus(api: Api, everyone: list[Agent]) -> list[Agent]:
    from .agents import CPU, GPU

    found = [a for a in everyone if a.kind == GPU]
    if not found or all(a.kind != CPU for a in everyone):
        raise NoDevice(
            f"the HSA runtime {api.path} finds no GPU", do="check that rocminfo shows one"
        )
    return found


def _choose(api: Api, everyone: list[Agent], spec: str, selector: str) -> Agent:
    """The GPU that a selector means."""
    gpus = _gpus(api, everyone)
    if not selector:
        return gpus[0]
    number = chosen(selector, [gpu.title for gpu in gpus])
    if number is not None:
        return gpus[number]
    listed = ", ".join(f"{n}: {gpu.title}" for n, gpu in enumerate(gpus))
    raise NoDevice(f"no device {spec!r}", expected=f"a number or a part of a name of {listed}")
