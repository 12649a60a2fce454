"""Loaded code, and the parameters of its launches in the form that the driver takes."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

from ....ir.abi import MAP_BYTES, gpu_layout, memory_params, scalar_params
from ....store.manifest import Manifest
from ...errors import ArtifactCorrupt, DriverError, GristmillError, Refused
from ...launch import Command, Grid, folded
from ...refusal import Lack, Refusal
from ...straight import row, written
from .. import parameters as shared
from ..parameters import parameter_format, parameters
from .api import Api
from .queue import Queue

Fill = Callable[[Command, int], Grid]
LOG_BYTES = 8192
INVALID_VALUE, NO_BINARY = 1, 209
TELLS_PARAMETERS = 12040  # CUDA 12.4
_NOT_FOR_THIS = {
    200: "the image is invalid or for another architecture",
    NO_BINARY: "no code for this architecture",
    218: "the PTX was refused",
    222: "the PTX is newer than the driver",
    223: "the driver does not compile PTX",
    300: "the code is invalid",
}


manifest_of = functools.partial(shared.manifest_of, device="CUDA")


class Code:
    """A kernel of a loaded module. cooperative: its workgroups wait for each other. dependent: it
    says itself how long it needs what it depends on.

    Its parameter block is filled for a launch and copied by the driver during the call, so one
    block serves all launches; the device's lock is held.
    """

    cooperative = dependent = False

    def __init__(self, api: Api, manifest: Manifest, blob: bytes, where: str, limits: Grid) -> None:
        self.manifest, self._api, self._limits = manifest, api, limits
        self.module = _load(api, manifest, blob, where)
        self._launch = api.drv.cuLaunchKernel
        self.sited = bool(manifest.sites)
        self.block = manifest.workgroup
        try:
            self.function = self._function(where)
            self._check_parameters(self._layout(), where)
        except BaseException:
            with contextlib.suppress(GristmillError):  # the first error tells more
                api.call("cuModuleUnload", self.module)
            raise

    def _function(self, where: str) -> Any:
        api, manifest = self._api, self.manifest
        try:
            function = api.call("cuModuleGetFunction", self.module, manifest.entry.encode())
        except DriverError as error:
            raise ArtifactCorrupt(
                f"the code has no entry {manifest.entry!r} ({error.what})",
                where=where,
                do="rebuild or fetch the bundle again",
            ) from error
        if api.has("cuFuncLoad") and api.version >= 12040:
            api.call("cuFuncLoad", function)  # else the first launch would load it
        self.shared = int(manifest.facts.get("dynamic_shared_bytes", 0))
        if self.shared:
            name = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
            which = getattr(api.drv.CUfunction_attribute, name)
            api.call("cuFuncSetAttribute", function, which, self.shared)
        return function

    def _check_parameters(self, expected: list[tuple[int, int]], where: str) -> None:
        """ArtifactCorrupt where the code has other parameters than its manifest says: it would take
        one for another. Drivers before CUDA 12.4 do not tell."""
        api = self._api
        if api.version < TELLS_PARAMETERS or not api.has("cuFuncGetParamInfo"):
            return
        tell, found = api.drv.cuFuncGetParamInfo, []
        for number in range(len(expected) + 1):  # one more than there may be
            status, *told = tell(self.function, number)
            if status and int(status) != INVALID_VALUE:
                raise api.error(status, "cuFuncGetParamInfo", where)
            if status:
                break
            at, size = map(int, told)
            # Assemblers place tensor maps as they like; the driver puts each where the code has it.
            found.append((0 if size == MAP_BYTES else at, size))
        if found != [(0 if size == MAP_BYTES else at, size) for at, size in expected]:
            raise ArtifactCorrupt(
                "the code has other parameters than its manifest",
                where=where,
                expected=f"(offset, bytes) {_few(expected)}",
                got=_few(found),
                do="rebuild or fetch the bundle again",
            )

    def _layout(self) -> list[tuple[int, int]]:
        """Make the parameter block; offset and size of each parameter."""
        params = parameters(self.manifest)
        layout = gpu_layout(params, self.sited)
        packed = struct.Struct(parameter_format(params, self.sited))
        self._buffer = ctypes.create_string_buffer(max(packed.size, 1))
        base = ctypes.addressof(self._buffer)
        faults = [] if layout.faults is None else [layout.faults, layout.fault_base]
        grid = [layout.grid + 4 * n for n in range(3)]
        places = [*layout.pointers, *layout.scalars, *layout.counts, *faults, *grid]
        self.places = [at or 0 for at in places]
        self._places = (ctypes.c_void_p * len(places))(*(base + at for at in self.places))
        self.parameters = ctypes.addressof(self._places)  # a void *[] for the driver
        self._pack = packed.pack_into
        self.buffers = len(memory_params(params))
        self._fill: Fill | None = None  # once launched
        sizes = [8] * self.buffers + [p.dtype.bytes for p in scalar_params(params)]
        sizes += [8] * self.buffers + [8, 4][: len(faults)] + [4] * 3
        return list(zip(self.places, sizes, strict=True))

    def _filler(self) -> Fill:
        """What `fill` calls; for saxpy(x, y, a):

        def fill(command, faults):
            _, (b0, b1, ), (s0, ), grid, base = command
            x, y, z = grid
            pack(block, 0, b0.allocation.handle.address + b0.offset,
                 b1.allocation.handle.address + b1.offset, s0, b0.elements, b1.elements, x, y, z)
            if x > 2147483647 or y > 65535 or z > 65535: return folded(grid, limits, where)
            return grid
        """
        memory = [f"b{n}" for n in range(self.buffers)]
        scalars = [f"s{n}" for n in range(len(self.manifest.params) - self.buffers)]
        values = [f"{b}.allocation.handle.address + {b}.offset" for b in memory]
        values += [*scalars, *(f"{b}.elements" for b in memory)]
        values += ["faults", "base"] if self.sited else []
        most = [f"{axis} > {size}" for axis, size in zip("xyz", self._limits, strict=True)]
        text = f"""def fill(command, faults):
    _, {row(memory)}, {row(scalars)}, grid, base = command
    x, y, z = grid
    pack(block, 0, {", ".join([*values, *"xyz"])})
    if {" or ".join(most)}: return folded(grid, limits, where)
    return grid
"""
        known = {"limits": self._limits, "where": f"kernel {self.manifest.kernel}"}
        fill: Fill = written(
            "fill", text, pack=self._pack, block=self._buffer, folded=folded, **known
        )
        self._fill = fill
        return fill

    def fill(self, command: Command, faults: int) -> Grid:
        """Put a launch's parameters into the block; the grid to launch. LimitExceeded."""
        return (self._fill or self._filler())(command, faults)

    def launch(self, command: Command, faults: int, queue: Queue) -> None:
        """Queue a launch."""
        x, y, z = (self._fill or self._filler())(command, faults)  # as `fill`
        bx, by, bz = self.block
        queue.busy = True
        (status,) = self._launch(
            self.function, x, y, z, bx, by, bz, self.shared, queue.stream, self.parameters, 0
        )
        if status:
            raise self.launch_error(status, "cuLaunchKernel")

    def launch_error(self, status: Any, call: str) -> GristmillError:
        """What a status of a launch means."""
        return self._api.error(status, call, f"kernel {self.manifest.kernel}")

    def node_parameters(self, command: Command, faults: int) -> Any:
        """The same launch as the parameters of a graph's node; valid until the next `fill`."""
        params = self._api.drv.CUDA_KERNEL_NODE_PARAMS()
        params.func = self.function
        params.gridDimX, params.gridDimY, params.gridDimZ = self.fill(command, faults)
        params.blockDimX, params.blockDimY, params.blockDimZ = self.block
        params.sharedMemBytes = self.shared
        params.kernelParams = self.parameters
        return params

    def finish_node(self, graph: Any, node: Any, before: Any) -> None:
        """Say of a node of a graph what its parameters cannot. before: the node behind which it
        may begin early; None: it begins when its edges let it."""

    def close(self) -> None:
        """No launch is pending."""
        self._api.call("cuModuleUnload", self.module)


def _few(parameters: list[tuple[int, int]]) -> str:
    more = f" and {len(parameters) - 8} more" if len(parameters) > 8 else ""
    return ", ".join(map(str, parameters[:8])) + more if parameters else "none"


def _load(api: Api, manifest: Manifest, blob: bytes, where: str) -> Any:
    """The module of an artifact; Refused or ArtifactCorrupt with the assembler's log."""
    if manifest.target.startswith("cubin-"):
        status, module = api.drv.cuModuleLoadData(blob)
        log = ""
    else:
        option = api.drv.CUjit_option
        said = bytearray(LOG_BYTES)
        options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        status, module = api.drv.cuModuleLoadDataEx(blob + b"\0", 2, options, [said, LOG_BYTES])
        log = bytes(said).split(b"\0")[0].decode("utf-8", "replace").strip()
    if not status:
        return module
    reason = _NOT_FOR_THIS.get(int(status))
    if reason is None:
        raise api.error(status, "cuModuleLoadData", where)
    if int(status) in (NO_BINARY, 222, 223):
        lack = Lack(manifest.target, 0, (f"{reason}{': ' + log if log else ''}",))
        refusal = Refusal(manifest.kernel, manifest.specialization, "cuda", (), (), (lack,))
        raise Refused(refusal)
    raise ArtifactCorrupt(
        f"the driver refuses the code: {reason}" + (f"\n{log}" if log else ""),
        where=where,
        expected=f"code for {manifest.target}",
        do="rebuild or fetch the bundle again",
    )
