"""Whether a linked code object is what its label says, and fits the hardware it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Any

from ...ir import abi, extensions
from ...ir.core import Kernel
from ...ir.dtypes import DTYPES, Access
from ...ir.interface import Param
from ...store.manifest import Manifest
from ..compile import CompileError
from . import code_object
from .code_object import Function
from .processors import Processor, parse_target


@dataclass(frozen=True, slots=True)
class Label:
    """What a code object is to hold. parameters: place and size of each in bytes."""

    entry: str
    target: str
    parameters: tuple[tuple[int, int], ...]
    workgroup: tuple[int, int, int]
    subgroup: int | None

    @staticmethod
    def of_kernel(kernel: Kernel, target: str) -> Label:
        """For the kernel after its passes, which may add fault sites. target: a target id."""
        places = abi.gpu_places(kernel.params, extensions.gpu_layout(kernel))
        return Label(kernel.name, target, places, kernel.workgroup, kernel.subgroup)

    @staticmethod
    def of_manifest(manifest: Manifest) -> Label:
        params = [Param(p.name, p.kind, DTYPES[p.dtype], Access(p.access)) for p in manifest.params]
        layout = abi.gpu_layout(params, bool(manifest.sites), "grid_barrier" in manifest.facts)
        places = abi.gpu_places(params, layout)
        target = manifest.target.partition("-")[2]
        return Label(manifest.entry, target, places, manifest.workgroup, manifest.subgroup)


def check_label(blob: bytes, manifest: Manifest) -> None:
    """Check a code object against its manifest. CompileError says what is wrong."""
    label = Label.of_manifest(manifest)
    found = inspect(blob, label)
    for name, value in found.items():
        if manifest.facts.get(name) != value:
            message = f"its {name} are {value}, the manifest says {manifest.facts.get(name)}"
            _refuse(label, f"the code object is wrong: {message}")


def validate(blob: bytes, target: str, kernel: Kernel) -> Mapping[str, Any]:
    """Check a code object against the kernel, after its passes, that it comes from; its facts.

    CompileError says what is wrong, or which limit of the hardware it is over.
    """
    return inspect(blob, Label.of_kernel(kernel, target))


def inspect(blob: bytes, label: Label) -> dict[str, Any]:
    """Check a code object against a label; what it takes of the hardware, as its facts."""
    try:
        found = code_object.read(blob)
    except code_object.CodeObjectError as error:
        raise _error(label, str(error)) from error
    processor = _check_target(found, label)
    if list(found.kernels) != [label.entry]:
        _refuse(label, f"it holds {', '.join(found.kernels) or 'no kernel'}, not {label.entry}")
    function = found.kernels[label.entry]
    _check_twice(function, processor, label)
    _check_interface(function, processor, label)
    _check_limits(function, processor, label)
    return facts(found.version, function)


def facts(version: int, function: Function) -> dict[str, Any]:
    """What a kernel takes of the hardware. Registers of an invocation (vgprs, agprs) or a wave."""
    k = function.info
    return {
        "vgprs": k.vgprs,
        "agprs": k.agprs,
        "sgprs": k.sgprs,
        "vgpr_spills": k.vgpr_spills,
        "sgpr_spills": k.sgpr_spills,
        "lds_bytes": k.lds_bytes,
        "scratch_bytes": k.scratch_bytes,
        "wavefront": k.wavefront,
        "code_object": version,
        "kernarg_bytes": k.kernarg_bytes,
    }


def _check_target(found: code_object.CodeObject, label: Label) -> Processor:
    try:
        processor, _ = parse_target(label.target)
    except ValueError as error:
        raise _error(label, str(error)) from error
    if found.target != label.target:
        _refuse(label, f"the code object is for {found.target}, its label says {label.target}")
    if found.version != processor.code_object:
        _refuse(label, f"code object version {found.version}, not {processor.code_object}")
    return processor


def _check_twice(function: Function, processor: Processor, label: Label) -> None:
    """What descriptor and metadata both say is the same."""
    k, d = function.info, function.descriptor
    pairs = {
        "LDS bytes": (k.lds_bytes, d.lds_bytes),
        "scratch bytes": (k.scratch_bytes, d.scratch_bytes),
        "kernarg bytes": (k.kernarg_bytes, d.kernarg_bytes),
        "lanes of a wave": (k.wavefront, d.wavefront),
        "workgroup processor mode": (k.workgroup_processor, d.workgroup_processor),
        "a dynamic stack": (k.dynamic_stack, d.dynamic_stack),
    }
    for what, (metadata, descriptor) in pairs.items():
        if metadata != descriptor:
            _refuse(
                label,
                f"the code object is wrong: {what}: {metadata} in the metadata, {descriptor} in "
                "the kernel descriptor",
            )
    # LLVM gives a wave more than it uses where LDS keeps others away.
    vgprs = k.vgprs if processor.unified else max(k.vgprs, k.agprs)
    if vgprs > d.vgprs:
        message = f"{vgprs} vector registers in the metadata, {d.vgprs} in the kernel descriptor"
        _refuse(label, f"the code object is wrong: {message}")


def _check_interface(function: Function, processor: Processor, label: Label) -> None:
    """Arguments, workgroup and subgroup are those of the kernel."""
    k = function.info
    hidden = [a.kind for a in k.arguments if a.kind.startswith("hidden_")]
    if hidden:
        _refuse(label, f"the code object wants arguments that no launch gives: {', '.join(hidden)}")
    places = [(a.offset, a.size) for a in k.arguments]
    odd = [f"{a}, not {b}" for a, b in zip_longest(places, label.parameters) if a != b]
    if odd:
        _refuse(label, f"its parameters (place, bytes) are {'; '.join(odd)}")
    end = max((at + size for at, size in label.parameters), default=0)
    if not end <= k.kernarg_bytes < end + 8:
        _refuse(label, f"a kernarg block of {k.kernarg_bytes} bytes for parameters of {end}")
    size = prod(label.workgroup)
    if k.max_workgroup != size:
        _refuse(label, f"it is made for workgroups of {k.max_workgroup} invocations, not {size}")
    waves = {processor.wavefront, 64}
    if k.wavefront not in waves or label.subgroup not in (None, 1, k.wavefront):
        _refuse(label, f"waves of {k.wavefront} invocations, not subgroups of {label.subgroup}")


def _check_limits(function: Function, processor: Processor, label: Label) -> None:
    """A whole workgroup fits where its waves run."""
    k = function.info
    if k.dynamic_stack:
        _refuse(label, "its stack has no bound known ahead of time: a function calls itself")
    if k.lds_bytes > processor.lds:
        _refuse(label, f"{k.lds_bytes} bytes of LDS, the processor has {processor.lds}")
    waves = -(-prod(label.workgroup) // k.wavefront)
    simds = processor.simds(k.workgroup_processor)
    together = -(-waves // simds)
    wide = k.wavefront // processor.wavefront
    budget, granule = processor.vgprs // wide, processor.granule // wide
    taken = _up(function.descriptor.vgprs, granule) * together
    if taken > budget:
        _refuse(
            label,
            f"a workgroup of {prod(label.workgroup)} invocations is {waves} waves on {simds} "
            f"SIMDs; {together} together take {together} x {taken // together} vector registers "
            f"of the {budget} there are: use a smaller workgroup",
        )


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _error(label: Label, message: str) -> CompileError:
    return CompileError(label.entry, f"hsaco-{label.target}", message)


def _refuse(label: Label, message: str) -> None:
    raise _error(label, message)
