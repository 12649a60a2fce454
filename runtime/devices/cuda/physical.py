"""What a CUDA device has, told as `Capabilities`."""

from __future__ import annotations

from typing import Any

from ....ir.targets import Capabilities, Limits
from ...memory import GRANULE
from ..gpu_features import OF_ALL
from .api import Api, release
from .context import attribute
from .rules import newest_isa, targets

OLDEST = (7, 5)
# By compute capability what it and every later one has; the rest of `ir.targets.FEATURES` is not
# for CUDA. What a GPU has beyond (copies behind a kernel's back, shapes of products of fragments)
# PTX for an architecture uses as it likes, no artifact asks for it by name.
_OF_ALL = (*OF_ALL, "dot4", "nv_roles")
_SINCE: dict[tuple[int, int], tuple[str, ...]] = {
    OLDEST: _OF_ALL,
    (8, 0): ("bf16", "nv_subgroup_mma"),
    (9, 0): ("nv_async", "nv_cluster", "nv_dependent_launch"),
}
# What exactly this one has.
_ONLY: dict[tuple[int, int], tuple[str, ...]] = {(9, 0): ("nv_warpgroup",)}
# Parameters of a kernel take 4 KiB at most: 16 bytes a buffer, the rest for everything else.
_BUFFERS = 240


def names(api: Api) -> list[str]:
    """The devices' names, by ordinal."""
    count = api.call("cuDeviceGetCount")
    return [name_of(api, api.call("cuDeviceGet", n)) for n in range(count)]


def name_of(api: Api, device: Any) -> str:
    """A device's name."""
    text: bytes = api.call("cuDeviceGetName", 128, device)
    return text.split(b"\0")[0].decode("utf-8", "replace")


def capability(api: Api, device: Any) -> tuple[int, int]:
    """The compute capability."""
    return (
        attribute(api, device, "COMPUTE_CAPABILITY_MAJOR"),
        attribute(api, device, "COMPUTE_CAPABILITY_MINOR"),
    )


def features(major: int, minor: int, cooperative: bool) -> frozenset[str]:
    """What a device of this compute capability has."""
    own = major, minor
    found = {f for since, added in _SINCE.items() if own >= since for f in added}
    found |= set(_ONLY.get(own, ()))
    if cooperative:
        found.add("grid_barrier")
    return frozenset(found)


def capabilities(api: Api, device: Any, spec: str) -> Capabilities:
    """The device as selection and planning see it."""

    def get(name: str) -> int:
        return attribute(api, device, name)

    major, minor = capability(api, device)
    total = int(api.call("cuDeviceTotalMem", device))
    limits = Limits(
        workgroup_invocations=get("MAX_THREADS_PER_BLOCK"),
        workgroup_size=(get("MAX_BLOCK_DIM_X"), get("MAX_BLOCK_DIM_Y"), get("MAX_BLOCK_DIM_Z")),
        grid=(get("MAX_GRID_DIM_X"), get("MAX_GRID_DIM_Y"), get("MAX_GRID_DIM_Z")),
        shared_bytes=get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        buffer_bytes=total,
        binding_bytes=total,
        buffers=_BUFFERS,
    )
    isa = newest_isa(api.version)
    return Capabilities(
        device=spec,
        name=name_of(api, device),
        driver=f"NVIDIA driver of CUDA {release(api.version)}",
        targets=targets((major, minor)),
        limits=limits,
        features=features(major, minor, bool(get("COOPERATIVE_LAUNCH"))),
        subgroup_sizes=(get("WARP_SIZE"),),
        offset_alignment=GRANULE,
        unified_memory=bool(get("INTEGRATED")),
        facts={
            "type": "integrated" if get("INTEGRATED") else "discrete",
            "compute_capability": f"{major}.{minor}",
            "cuda": release(api.version),
            "ptx_isa": f"{isa[0]}.{isa[1]}",
            "multiprocessors": get("MULTIPROCESSOR_COUNT"),
            "l2_bytes": get("L2_CACHE_SIZE"),
            "memory_bus_bits": get("GLOBAL_MEMORY_BUS_WIDTH"),
        },
    )
