"""The agents of a machine, GPUs and the CPU beside each, and the memory pools of each."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from .api import Api

# hsa_agent_info_t and hsa_amd_agent_info_t
NAME, WAVEFRONT, WORKGROUP_DIM, WORKGROUP, GRID_DIM = 0, 6, 7, 8, 9
QUEUE_MIN, QUEUE_MAX, KIND = 13, 14, 17
COMPUTE_UNITS, PRODUCT, AVAILABLE = 0xA002, 0xA009, 0xA015
NEAREST_CPU, MEMORY_PROPERTIES = 0xA113, 0xA114
GPU, CPU = 1, 0
# hsa_amd_memory_pool_info_t
_SEGMENT, _FLAGS, _SIZE, _MAY, _MOST = 0, 1, 2, 5, 16
GLOBAL, GROUP = 0, 3
KERNARG, FINE, COARSE = 1, 2, 4
_ISA_PREFIX = "amdgcn-amd-amdhsa--"


class Pool(NamedTuple):
    """Memory of an agent. flags: KERNARG, FINE, COARSE. nbytes: of all of it; most: of an
    allocation."""

    handle: int
    segment: int
    flags: int
    nbytes: int
    most: int


class Agent(NamedTuple):
    """name: of its processor, `gfx1100`. isas: target ids of code that it runs, its own first."""

    handle: int
    kind: int
    name: str
    product: str
    isas: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name that a person knows, and the processor's."""
        return f"{self.product} ({self.name})" if self.product else self.name


def ask(api: Api, agent: int, which: int) -> int:
    """A number that an agent tells about itself."""
    return int(api.get("hsa_agent_get_info", agent, which, ctypes.c_uint32).value)


def told(api: Api, agent: int, which: int, kind: type) -> int | None:
    """A number that newer releases tell."""
    value = api.told("hsa_agent_get_info", agent, which, kind)
    return None if value is None else int(value.value)


def agents(api: Api) -> list[Agent]:
    """All agents, in the library's order."""
    return [_agent(api, handle) for handle in api.each("hsa_iterate_agents")]


def _agent(api: Api, handle: int) -> Agent:
    kind = ask(api, handle, KIND)
    name = _text(api.get("hsa_agent_get_info", handle, NAME, ctypes.c_char * 64))
    product = api.told("hsa_agent_get_info", handle, PRODUCT, ctypes.c_char * 64)
    isas: tuple[str, ...] = ()
    if kind == GPU:
        found = [_isa(api, isa) for isa in api.each("hsa_agent_iterate_isas", handle)]
        isas = tuple(sorted(found, key=lambda isa: isa.partition(":")[0] != name))
    return Agent(handle, kind, name, _text(product) if product else "", isas or (name,))


def _isa(api: Api, isa: int) -> str:
    length = api.get("hsa_isa_get_info_alt", isa, 0, ctypes.c_uint32)
    name = api.get("hsa_isa_get_info_alt", isa, 1, ctypes.c_char * (length.value + 1))
    return _text(name).removeprefix(_ISA_PREFIX)


def _text(array: ctypes.Array[ctypes.c_char]) -> str:
    return bytes(array.raw).split(b"\0")[0].decode("utf-8", "replace").strip()


def pools(api: Api, agent: Agent) -> list[Pool]:
    """The pools of an agent."""
    found = []
    for handle in api.each("hsa_amd_agent_iterate_memory_pools", agent.handle):

        def get(which: int, kind: type, handle: int = handle) -> int:
            return int(api.get("hsa_amd_memory_pool_get_info", handle, which, kind).value)

        segment = get(_SEGMENT, ctypes.c_uint32)
        flags = get(_FLAGS, ctypes.c_uint32) if segment == GLOBAL else 0
        if segment == GLOBAL and not get(_MAY, ctypes.c_bool):
            continue
        size = get(_SIZE, ctypes.c_size_t)
        most = api.told("hsa_amd_memory_pool_get_info", handle, _MOST, ctypes.c_size_t)
        found.append(
            Pool(handle, segment, flags, size, most.value if most and most.value else size)
        )
    return found


def cpu_of(api: Api, gpu: Agent, everyone: list[Agent]) -> Agent:
    """The CPU next to a GPU, where the library tells; else the first."""
    cpus = [a for a in everyone if a.kind == CPU]
    nearest = told(api, gpu.handle, NEAREST_CPU, ctypes.c_uint64)
    return next((a for a in cpus if a.handle == nearest), cpus[0])
