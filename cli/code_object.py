"""What an AMD code object says about itself, for readers."""

from __future__ import annotations

from ..backends.hsaco import code_object
from ..backends.hsaco.code_object import Function
from .errors import CommandError
from .table import table


def describe(blob: bytes, path: str) -> str:
    """Target id, registers, memory and arguments of the kernels of a code object."""
    try:
        found = code_object.read(blob)
    except code_object.CodeObjectError as error:
        raise CommandError(f"{path}: {error}") from error
    head = table([["target id", found.target], ["code object", f"version {found.version}"]])
    return "\n\n".join([head, *(_kernel(f) for f in found.kernels.values())])


def _kernel(function: Function) -> str:
    k = function.info
    rows = [
        ["kernel", k.name],
        ["wavefront", f"{k.wavefront} lanes"],
        ["VGPR", f"{k.vgprs}, {function.descriptor.vgprs} allocated, {k.vgpr_spills} spilled"],
        ["AGPR", str(k.agprs)],
        ["SGPR", f"{k.sgprs}, {k.sgpr_spills} spilled"],
        ["LDS", f"{k.lds_bytes} bytes"],
        ["scratch", f"{k.scratch_bytes} bytes"],
        ["workgroup", f"at most {k.max_workgroup} invocations"],
        ["code", f"{len(function.code)} bytes"],
        ["kernarg", f"{k.kernarg_bytes} bytes"],
    ]
    arguments = [["argument", "offset", "bytes", "kind"]]
    arguments += [[a.name or "-", str(a.offset), str(a.size), a.kind] for a in k.arguments]
    return f"{table(rows)}\n\n{table(arguments, right=(1, 2))}"
