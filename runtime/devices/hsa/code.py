"""Loaded code, and its launches as packets and blocks of parameters."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable
from math import prod
from typing import Any

from ....ir.abi import gpu_layout, gpu_places, memory_params
from ....store.manifest import Manifest
from ...errors import ArtifactCorrupt, DriverError, GristmillError, Refused
from ...launch import Command, Grid, folded
from ...refusal import Lack, Refusal
from ...straight import row, written
from ..parameters import parameter_format, parameters
from . import codeobject
from .api import Api, named
from .rules import PREFIX

Fill = Callable[[Command, int, Any, int], Grid]
Body = tuple[int, ...]
MOST_ITEMS = (1 << 32) - 1  # of a grid along each dimension
MOST_GROUPS = 65535  # along y and z
_FULL_PROFILE, _ROUNDING = 1, 0
_OBJECT, _KERNARG, _GROUP, _PRIVATE = 22, 11, 13, 14  # hsa_executable_symbol_info_t
_INVALID_CODE, _NO_SYMBOL = 0x1010, 0x1013
_NOT_FOR_THIS = (0x100D, 0x100F, 0x1017)  # incompatible, or an instruction set it does not know
_GENERIC_VERSION = 6  # of code objects for generic processors
_AGAIN = "rebuild or fetch the bundle again"


class Code:
    """A kernel of a loaded code object. sited: it has fault sites. most: work-items along each
    dimension that the device takes."""

    def __init__(
        self, api: Api, agent: int, manifest: Manifest, blob: bytes, where: str, most: Grid
    ) -> None:
        self.manifest, self._api, self._agent = manifest, api, agent
        self.sited = bool(manifest.sites)
        self._x, self._y, self._z = manifest.workgroup
        wide = (MOST_ITEMS // self._x, MOST_GROUPS, MOST_GROUPS)
        x, y, z = (
            min(groups, items // size)
            for groups, items, size in zip(wide, most, manifest.workgroup, strict=True)
        )
        self._limits = x, y, z
        self._params = parameters(manifest)
        self._check(codeobject.read(blob, where), where)
        self._blob = blob  # debuggers find the code in it
        self._executable = _load(api, agent, manifest, blob, where)
        try:
            self._find(where)
        except BaseException:
            with contextlib.suppress(GristmillError):  # the first error tells more
                self.close()
            raise
        self._fill: Fill | None = None  # once launched

    def fill(self, command: Command, faults: int, block: Any, at: int) -> Grid:
        """Put a launch's parameters into a block of bytes; the grid to launch. LimitExceeded."""
        return (self._fill or self._filler())(command, faults, block, at)

    def body(self, grid: Grid, kernarg: int, signal: int = 0) -> Body:
        """What `packets.DISPATCH_BODY` packs for a launch. kernarg: where its parameters are."""
        x, y, z = grid
        return (
            *(self._x, self._y, self._z, 0),
            *(x * self._x, y * self._y, z * self._z),
            *(self._private, self._group, self._object, kernarg, 0, signal),
        )

    def close(self) -> None:
        """No launch is pending."""
        self._api.call("hsa_executable_destroy", self._executable)

    def _check(self, found: codeobject.CodeObject, where: str) -> None:
        """ArtifactCorrupt where the code is not what its manifest says."""
        manifest, entry = self.manifest, f"{self.manifest.entry}.kd"
        kernel = found.kernels.get(entry)
        if kernel is None:
            held = ", ".join(found.kernels) or "nothing"
            raise _wrong(f"no kernel {manifest.entry!r}", where, f"a symbol {entry}", held)
        layout = gpu_layout(self._params, self.sited)
        places = gpu_places(self._params, layout)
        size = prod(manifest.workgroup)
        same: list[tuple[str, object, object]] = [
            ("code for another processor", manifest.target.removeprefix(PREFIX), found.target),
            ("other parameters (offset, bytes)", places, kernel.arguments),
            ("parameters that no launch gives", "none", ", ".join(kernel.hidden) or "none"),
        ]
        if manifest.subgroup not in (None, 1):
            same.append(("other waves", manifest.subgroup, kernel.wave))
        for what, expected, got in same:
            if expected != got:
                raise _wrong(what, where, str(expected), str(got))
        for what, least, got in (
            ("a smaller block of parameters", layout.size, kernel.kernarg),
            ("smaller workgroups", size, kernel.workgroup),
        ):
            if got < least:
                raise _wrong(what, where, f"at least {least}", str(got))
        self.kernarg_bytes = max(layout.size, kernel.kernarg)

    def _find(self, where: str) -> None:
        api, entry = self._api, f"{self.manifest.entry}.kd"
        agent = ctypes.c_uint64(self._agent)
        get = "hsa_executable_get_symbol_by_name"
        try:
            symbol = api.made(get, self._executable, entry.encode(), ctypes.byref(agent))
        except DriverError as error:
            if error.code != _NO_SYMBOL:
                raise
            raise _wrong(f"no kernel {self.manifest.entry!r}", where, entry, str(error)) from error

        def tell(which: int, kind: type) -> int:
            return int(api.get("hsa_executable_symbol_get_info", symbol, which, kind).value)

        self._object = tell(_OBJECT, ctypes.c_uint64)
        self._group = tell(_GROUP, ctypes.c_uint32)
        self._private = tell(_PRIVATE, ctypes.c_uint32)
        self.kernarg_bytes = max(self.kernarg_bytes, tell(_KERNARG, ctypes.c_uint32))

    def _filler(self) -> Fill:
        """What `fill` calls; for saxpy(x, y, a):

        def fill(command, faults, block, at):
            _, (b0, b1, ), (s0, ), grid, base = command
            x, y, z = grid
            pack(block, at, b0.allocation.handle.address + b0.offset,
                 b1.allocation.handle.address + b1.offset, s0, b0.elements, b1.elements, x, y, z)
            if x > 67108863 or y > 65535 or z > 65535: return folded(grid, limits, where)
            return grid
        """
        buffers = len(memory_params(self._params))
        memory = [f"b{n}" for n in range(buffers)]
        scalars = [f"s{n}" for n in range(len(self._params) - buffers)]
        values = [f"{b}.allocation.handle.address + {b}.offset" for b in memory]
        values += [*scalars, *(f"{b}.elements" for b in memory)]
        values += ["faults", "base"] if self.sited else []
        most = [f"{axis} > {size}" for axis, size in zip("xyz", self._limits, strict=True)]
        text = f"""def fill(command, faults, block, at):
    _, {row(memory)}, {row(scalars)}, grid, base = command
    x, y, z = grid
    pack(block, at, {", ".join([*values, *"xyz"])})
    if {" or ".join(most)}: return folded(grid, limits, where)
    return grid
"""
        pack = struct.Struct(parameter_format(self._params, self.sited)).pack_into
        known = {"limits": self._limits, "where": f"kernel {self.manifest.kernel}"}
        fill: Fill = written("fill", text, pack=pack, folded=folded, **known)
        self._fill = fill
        return fill


def _wrong(what: str, where: str, expected: str, got: str) -> ArtifactCorrupt:
    return ArtifactCorrupt(
        f"the code object is not what its manifest says: {what}",
        where=where,
        expected=expected,
        got=got,
        do=_AGAIN,
    )


def _load(api: Api, agent: int, manifest: Manifest, blob: bytes, where: str) -> int:
    """The executable with an artifact's code; Refused where this release does not take it."""
    executable = api.made("hsa_executable_create_alt", _FULL_PROFILE, _ROUNDING, None, where=where)
    try:
        reader = api.made("hsa_code_object_reader_create_from_memory", blob, len(blob))
        try:
            api.call("hsa_executable_load_agent_code_object", executable, agent, reader, None, None)
            api.call("hsa_executable_freeze", executable, None)
        finally:
            api.call("hsa_code_object_reader_destroy", reader)
    except BaseException as error:
        with contextlib.suppress(GristmillError):
            api.call("hsa_executable_destroy", executable)
        if isinstance(error, DriverError) and _unknown_to_release(error.code, manifest):
            lack = f"a release of ROCm that loads it ({named(error.code)})"
            lacks = (Lack(manifest.target, 0, (lack,)),)
            refusal = Refusal(manifest.kernel, manifest.specialization, "hsa", (), (), lacks)
            raise Refused(refusal) from error
        if isinstance(error, DriverError) and error.code == _INVALID_CODE:
            raise ArtifactCorrupt(
                f"the HSA runtime refuses the code object ({named(error.code)})",
                where=where,
                expected=f"code for {manifest.target}",
                do=_AGAIN,
            ) from error
        raise
    return executable


def _unknown_to_release(status: int, manifest: Manifest) -> bool:
    """Whether a status says that another release would load the code, which has been read here
    already. Releases that end before code objects of version 6 call those invalid."""
    newer = status == _INVALID_CODE and manifest.facts.get("code_object") == _GENERIC_VERSION
    return newer or status in _NOT_FOR_THIS
