"""A whole kernel as one LLVM function: parameters, the place of its group, the body."""

from __future__ import annotations

from ...ir.core import Kernel
from ..llvm.text import Function
from ..simt.body import emit_region
from ..simt.ids import place_group
from ..simt.kernel import bind, parameters
from .arch import Arch
from .intrinsics import unknown
from .joins import TracedFunction
from .lds import Block, declare_arrays
from .lowering import LoweringError
from .private import check_private
from .sync import LOCAL
from .target import HsacoLowering

# no-builtins: a loop that copies or clears must not become a call of memcpy or memset.
_ATTRIBUTES = (
    'nounwind "no-builtins" "uniform-work-group-size"="true" '
    '"amdgpu-flat-work-group-size"="{count},{count}"'
)
# What a wave could be started with, and the intrinsic that reads it, if any here does: what no
# attribute rules out becomes registers and hidden arguments.
_INPUTS = {
    **{f"workitem-id-{d}": f"workitem.id.{d}" for d in "xyz"},
    **{f"workgroup-id-{d}": f"workgroup.id.{d}" for d in "xyz"},
    "dispatch-ptr": "dispatch.ptr",
    **dict.fromkeys(("cluster-id-x", "cluster-id-y", "cluster-id-z", "queue-ptr", "dispatch-id")),
    **dict.fromkeys(("implicitarg-ptr", "hostcall-ptr", "heap-ptr", "multigrid-sync-arg")),
    **dict.fromkeys(("default-queue", "completion-action", "lds-kernel-id", "flat-scratch-init")),
}
_FLUSH = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_FLAG = '!{{i32 1, !"amdhsa_code_object_version", i32 {}}}'


def write_kernel(kernel: Kernel, arch: Arch, block: Block) -> str:
    """The LLVM module of a legalized kernel, whose workgroup arrays lie as `block` says."""
    attributes = _ATTRIBUTES.format(count=kernel.workgroup_count)
    if "approximate" in kernel.fast:
        attributes += _FLUSH
    f = TracedFunction(kernel.name, parameters(kernel), convention="amdgpu_kernel")
    x = HsacoLowering(kernel, arch, f)
    bind(x)
    place_group(x)
    check_private(x)
    arrays = declare_arrays(x, block)
    emit_region(x, kernel.body)
    if odd := unknown(f.declarations):
        raise LoweringError(f"intrinsics outside the table: {', '.join(odd)}", None)
    f.head += f" {attributes}{_absent(f)} !reqd_work_group_size !2"
    sizes = ", ".join(f"i32 {n}" for n in kernel.workgroup)
    notes = ("!{}", LOCAL, f"!{{{sizes}}}", _FLAG.format(arch.processor.code_object * 100))
    named = "".join(f"!{n} = {note}\n" for n, note in enumerate(notes))
    return f"{arrays}{f.text()}\n!llvm.module.flags = !{{!3}}\n{named}"


def _absent(f: Function) -> str:
    """Attributes for the inputs that a finished function does not read."""
    read = {name.removeprefix("llvm.amdgcn.") for name in f.declarations}
    return "".join(f' "amdgpu-no-{name}"' for name, reader in _INPUTS.items() if reader not in read)
