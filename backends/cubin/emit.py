"""From PTX to a cubin, an artifact of its own.

It runs on the devices of the target's major version from its minor version on; with the suffix `a`
on that very architecture. Its parameters are those of the PTX. Its facts are read from the cubin
itself; spills, which stand nowhere in it, from what the assembler says.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ...ir.abi import MAP_BYTES
from ...ir.core import Kernel
from ...store.manifest import Manifest
from ..compile import CompileError, Emitted, Options
from ..ptx import emit as ptx
from ..ptx.validate import Label, same_parameters
from . import assembler, elf

SHARED_BYTES, INVOCATIONS, EXTENSIONS = ptx.SHARED_BYTES, ptx.INVOCATIONS, ptx.EXTENSIONS
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def emit(kernel: Kernel, arch: str, options: Options) -> Emitted:
    """The cubin of a kernel. CompileError for what this target cannot run."""
    made = ptx.emit(kernel, arch, options)
    blob, facts = assemble(kernel.name, made.blob, arch)
    kept = {name: value for name, value in made.facts.items() if name != "ptx_isa"}
    return replace(made, blob=blob, facts={**kept, **facts})


def assemble_step(text: bytes, arch: str) -> dict[str, bytes]:
    """The build step: a PTX -> outputs `artifact` and `facts` (JSON)."""
    blob, facts = assemble(ptx.entry_name(text), text, arch)
    return {"artifact": blob, "facts": json.dumps(facts, sort_keys=True).encode()}


def assemble(kernel: str, text: bytes, arch: str) -> tuple[bytes, dict[str, Any]]:
    """The cubin of a kernel's PTX, and its facts. CompileError where there is none."""
    target = f"cubin-{arch}"
    try:
        blob, log = assembler.assemble(text, arch)
    except assembler.AssemblerError as error:
        raise CompileError(kernel, target, str(error)) from error
    found = checked(blob, arch, kernel)
    spills = _SPILLS.search(log)
    stores, loads = map(int, spills.groups()) if spills else (0, 0)
    return blob, {
        "registers": found.registers,
        "spill_stores": stores,
        "spill_loads": loads,
        "shared_bytes": found.shared_bytes,
        "local_bytes": found.local_bytes,
        "assembler": assembler.identity(),
    }


def checked(blob: bytes, arch: str, kernel: str) -> elf.Cubin:
    """A cubin of this architecture and kernel. CompileError otherwise."""
    try:
        found = elf.read(blob)
    except elf.CubinError as error:
        raise CompileError(kernel, f"cubin-{arch}", str(error)) from error
    for what, expected, got in (("arch", arch, found.arch), ("kernel", kernel, found.name)):
        if got != expected:
            message = f"the cubin holds {what} {got}, its label says {expected}"
            raise CompileError(kernel, f"cubin-{arch}", message)
    return found


def check_label(blob: bytes, manifest: Manifest) -> None:
    """Check a cubin against its manifest. CompileError says what is wrong."""
    _check(blob, manifest.target.partition("-")[2], Label.of_manifest(manifest))


def validate(blob: bytes, arch: str, kernel: Kernel) -> None:
    """Check a cubin against the kernel, after its passes, that it comes from."""
    _check(blob, arch, Label.of_kernel(kernel, arch))


def _check(blob: bytes, arch: str, label: Label) -> None:
    found = checked(blob, arch, label.entry)
    same, message = same_parameters(
        _unplaced(found.parameters), replace(label, parameters=_unplaced(label.parameters))
    )
    if same and found.workgroup != label.workgroup:
        same, message = False, f"its workgroup is {found.workgroup}, not {label.workgroup}"
    if not same:
        raise CompileError(label.entry, f"cubin-{arch}", f"the cubin is wrong: {message}")


def _unplaced(parameters: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Parameters without the places of tensor maps: the assembler aligns those in its own bank of
    constants, and the driver copies each parameter to where the cubin has it."""
    return tuple((0 if size == MAP_BYTES else at, size) for at, size in parameters)
