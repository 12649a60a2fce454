"""Code with extensions: tensor maps, barriers of the grid, clusters, dependent launches."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

from ....ir.abi import MAP_ALIGN, MAP_BYTES, gpu_layout
from ....store.manifest import Manifest
from ...errors import ArgumentError, LimitExceeded
from ...launch import Command, Grid, folded
from ..parameters import parameter_format, parameters
from .api import Api
from .modules import Code
from .queue import Queue
from .tensormap import MapEncoder

_PROGRAMMATIC_PORT = 1
FACTS = ("tensor_maps", "grid_barrier", "cluster", "dependent_launch")


class ExtendedCode(Code):
    """cooperative: all workgroups of a launch must be on the device at once.

    counter: the address of the word in which barriers of the grid count.
    """

    def __init__(
        self,
        api: Api,
        manifest: Manifest,
        blob: bytes,
        where: str,
        limits: Grid,
        multiprocessors: int,
        counter: Callable[[], int],
    ) -> None:
        facts = manifest.facts
        self.cooperative = bool(facts.get("grid_barrier"))
        self.dependent = bool(facts.get("dependent_launch"))
        self._cluster = int(facts.get("cluster", 1))
        self._counter = counter() if self.cooperative else 0
        self._place = f"kernel {manifest.kernel}"
        maps = facts.get("tensor_maps", ())
        self._maps = [MapEncoder(api, fact, self._place) for fact in maps]
        self._multiprocessors, self._most = multiprocessors, 0
        super().__init__(api, manifest, blob, where, limits)

    def _layout(self) -> list[tuple[int, int]]:
        params = parameters(self.manifest)
        layout = gpu_layout(params, self.sited, self.cooperative, len(self._maps))
        packed = struct.Struct(parameter_format(params, self.sited, self.cooperative))
        self._buffer = ctypes.create_string_buffer(layout.size + MAP_ALIGN)
        start = ctypes.addressof(self._buffer)
        self._start = -start % MAP_ALIGN
        base = start + self._start
        faults = [] if layout.faults is None else [layout.faults, layout.fault_base]
        barrier = [] if layout.barrier is None else [layout.barrier]
        grid = [layout.grid + 4 * n for n in range(3)]
        places = [*layout.pointers, *layout.scalars, *layout.counts, *faults, *barrier, *grid]
        places += layout.maps
        self._places = (ctypes.c_void_p * len(places))(*(base + (at or 0) for at in places))
        self.parameters = ctypes.addressof(self._places)
        self._pack = packed.pack_into
        self._views = [base + at for at in layout.maps]
        self._memory = [p.name for p in params if p.is_memory]
        self._scalars = [p for p in params if not p.is_memory]
        self.buffers = len(self._memory)
        self._fill = self._extended_fill
        sizes = [8] * self.buffers + [p.dtype.bytes for p in self._scalars] + [8] * self.buffers
        sizes += [8, 4][: len(faults)] + [8] * len(barrier) + [4] * 3
        sizes += [MAP_BYTES] * len(self._maps)
        return [(at or 0, size) for at, size in zip(places, sizes, strict=True)]

    def _extended_fill(self, command: Command, faults: int) -> Grid:
        _, bindings, scalars, grid, fault_base = command
        addresses = [b.allocation.handle.address + b.offset for b in bindings]
        counts = [b.elements for b in bindings]
        values = [*addresses, *scalars, *counts]
        if self.sited:
            values += (faults, fault_base)
        if self.cooperative:
            self._check_resident(command.groups)
            values.append(self._counter)
        if grid[0] % self._cluster:
            raise ArgumentError(
                "wrong grid",
                where=self._place,
                expected=f"a multiple of {self._cluster}, the size of a cluster, along x",
                got=str(grid[0]),
            )
        self._pack(self._buffer, self._start, *values, *grid)
        if self._maps:
            self._encode(addresses, counts, scalars)
        return folded(grid, self._limits, self._place)

    def _encode(self, addresses: list[int], counts: list[int], scalars: tuple[int, ...]) -> None:
        by_name = dict(zip(self._memory, counts, strict=True))
        numbers = {
            p.name: bits - (bits >> (p.dtype.bits - 1) << p.dtype.bits if p.dtype.is_signed else 0)
            for p, bits in zip(self._scalars, scalars, strict=True)
        }
        for encoder, place in zip(self._maps, self._views, strict=True):
            at = self._memory.index(encoder.buffer)
            made = encoder.encode(addresses[at], counts[at], by_name, numbers)
            ctypes.memmove(place, made, len(made))

    def _check_resident(self, groups: int) -> None:
        if not self._most:
            bx, by, bz = self.block
            name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
            each = self._api.call(name, self.function, bx * by * bz, self.shared)
            self._most = int(each) * self._multiprocessors
        if groups > self._most:
            raise LimitExceeded(
                "workgroups that wait for each other",
                self._most,
                groups,
                self._place,
                "launch as many as the device holds at once, each with more of the work",
            )

    def launch(self, command: Command, faults: int, queue: Queue) -> None:
        """Queue a launch."""
        if not (self.cooperative or self.dependent):
            super().launch(command, faults, queue)
            return
        x, y, z = self.fill(command, faults)
        queue.busy = True
        drv, config = self._api.drv, self._api.drv.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = x, y, z
        config.blockDimX, config.blockDimY, config.blockDimZ = self.block
        config.sharedMemBytes, config.hStream = self.shared, queue.stream
        config.attrs = self._attributes()
        config.numAttrs = len(config.attrs)
        (status,) = drv.cuLaunchKernelEx(config, self.function, self.parameters, 0)
        if status:
            raise self._api.error(status, "cuLaunchKernelEx", self._place)

    def _attributes(self) -> list[Any]:
        drv, found = self._api.drv, []
        for wanted, name, field in (
            (self.cooperative, "COOPERATIVE", "cooperative"),
            (
                self.dependent,
                "PROGRAMMATIC_STREAM_SERIALIZATION",
                "programmaticStreamSerializationAllowed",
            ),
        ):
            if wanted:
                attribute = drv.CUlaunchAttribute()
                attribute.id = getattr(drv.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
                setattr(attribute.value, field, 1)
                found.append(attribute)
        return found

    def finish_node(self, graph: Any, node: Any, before: Any) -> None:
        """Say of a node of a graph what its parameters cannot. before: see `Code`."""
        if before is not None:
            edge = self._api.drv.CUgraphEdgeData()
            edge.from_port = _PROGRAMMATIC_PORT
            edge.type = self._api.drv.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
            name = "cuGraphAddDependencies_v2"  # the bindings for CUDA 12; those for 13 drop the 2
            name = name if self._api.has(name) else "cuGraphAddDependencies"
            self._api.call(name, graph, [before], [node], [edge], 1)
        if not self.cooperative:
            return
        value = self._api.drv.CUkernelNodeAttrValue()
        value.cooperative = 1
        which = self._api.drv.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        self._api.call("cuGraphKernelNodeSetAttribute", node, which, value)
