"""What an AMD GPU has, told as `Capabilities`."""

from __future__ import annotations

import ctypes

from ....ir.targets import Capabilities, Limits
from ...errors import NoDevice
from ...memory import GRANULE
from ..gpu_features import OF_ALL
from . import agents
from .agents import Agent, Pool, ask
from .api import Api
from .code import MOST_GROUPS, MOST_ITEMS
from .rules import generic_of, targets

# What code for every processor of ours has. No `grid_barrier`: nothing here holds all workgroups of
# a launch on the device.
_OF_ALL = (*OF_ALL, "float_controls_rte16")
_NO_DOT4 = ("gfx900", "gfx902", "gfx904", "gfx909", "gfx90c", "gfx1010", "gfx1013")
_BUFFERS = 1024  # 16 bytes of parameters each
_IS_APU = 1


def pool_of(pools: list[Pool], flag: int, what: str) -> Pool:
    """The first global pool with a flag; NoDevice."""
    for pool in pools:
        if pool.segment == agents.GLOBAL and pool.flags & flag:
            return pool
    raise NoDevice(f"the HSA runtime tells of no {what}")


def features(processor: str) -> frozenset[str]:
    """What a processor has."""
    return frozenset(_OF_ALL) | ({"dot4"} if processor not in _NO_DOT4 else frozenset())


def subgroup_sizes(processor: str) -> tuple[int, ...]:
    """Lanes of the waves that code may be made for: those of gfx10 and later are of either size."""
    return (64,) if processor.startswith("gfx9") else (32, 64)


def most_items(api: Api, agent: Agent) -> tuple[int, int, int]:
    """Work-items of a grid along each dimension."""
    x, y, z = api.get("hsa_agent_get_info", agent.handle, agents.GRID_DIM, ctypes.c_uint32 * 3)
    return x, y, z


def capabilities(api: Api, agent: Agent, pools: list[Pool], spec: str) -> Capabilities:
    """The device as selection and planning see it."""
    coarse = pool_of(pools, agents.COARSE, "memory of the device")
    shared = max((p.nbytes for p in pools if p.segment == agents.GROUP), default=0)
    sizes = ctypes.c_uint16 * 3
    x, y, z = api.get("hsa_agent_get_info", agent.handle, agents.WORKGROUP_DIM, sizes)
    invocations = ask(api, agent.handle, agents.WORKGROUP)
    flags = api.told(
        "hsa_agent_get_info", agent.handle, agents.MEMORY_PROPERTIES, ctypes.c_uint8 * 8
    )
    integrated = flags is not None and bool(flags[0] & _IS_APU)
    version = ".".join(str(api.system(n, ctypes.c_uint16).value) for n in (0, 1))
    processor = agent.isas[0].partition(":")[0]
    most = most_items(api, agent)
    limits = Limits(
        workgroup_invocations=invocations,
        workgroup_size=(x, y, z),
        # For the widest workgroup: packets count work-items in 32 bits.
        grid=(
            min(MOST_ITEMS, most[0]) // invocations,
            min(MOST_GROUPS, most[1] // invocations),
            min(MOST_GROUPS, most[2] // invocations),
        ),
        shared_bytes=shared,
        buffer_bytes=coarse.most,
        binding_bytes=coarse.most,
        buffers=_BUFFERS,
    )
    return Capabilities(
        device=spec,
        name=agent.title,
        driver=f"HSA runtime {version}",
        targets=targets(agent.isas),
        limits=limits,
        features=features(processor),
        subgroup_sizes=subgroup_sizes(processor),
        offset_alignment=GRANULE,
        unified_memory=integrated,
        facts={
            "type": "integrated" if integrated else "discrete",
            "isa": agent.isas[0],
            "family": generic_of(processor) or "none",
            "wave": ask(api, agent.handle, agents.WAVEFRONT),
            "compute_units": ask(api, agent.handle, agents.COMPUTE_UNITS),
            "hsa": version,
            "library": api.path,
        },
    )
