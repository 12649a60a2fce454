"""A whole kernel as one LLVM function: parameters, the place of its group, the body."""

from __future__ import annotations

from ...ir.core import Kernel
from ..llvm.text import Function
from ..simt.body import emit_region
from ..simt.ids import place_group
from ..simt.kernel import bind, parameters
from .arch import Arch
from .intrinsics import unknown
from .lds import Block, declare_arrays
from .lowering import LoweringError
from .sync import LOCAL
from .target import HsacoLowering

# no-builtins: a loop that copies or clears must not become a call of memcpy or memset.
_ATTRIBUTES = (
    'nounwind "no-builtins" "uniform-work-group-size"="true" '
    '"amdgpu-flat-work-group-size"="{count},{count}"'
)
_FLUSH = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_FLAG = '!{{i32 1, !"amdhsa_code_object_version", i32 {}}}'


def write_kernel(kernel: Kernel, arch: Arch, block: Block) -> str:
    """The LLVM module of a legalized kernel, whose workgroup arrays lie as `block` says."""
    attributes = _ATTRIBUTES.format(count=kernel.workgroup_count)
    if "approximate" in kernel.fast:
        attributes += _FLUSH
    attributes += " !reqd_work_group_size !2"
    f = Function(kernel.name, parameters(kernel), attributes, "amdgpu_kernel")
    x = HsacoLowering(kernel, arch, f)
    bind(x)
    place_group(x)
    arrays = declare_arrays(x, block)
    emit_region(x, kernel.body)
    if odd := unknown(f.declarations):
        raise LoweringError(f"intrinsics outside the table: {', '.join(odd)}", None)
    sizes = ", ".join(f"i32 {n}" for n in kernel.workgroup)
    notes = ("!{}", LOCAL, f"!{{{sizes}}}", _FLAG.format(arch.code_object * 100))
    named = "".join(f"!{n} = {note}\n" for n, note in enumerate(notes))
    return f"{arrays}{f.text()}\n!llvm.module.flags = !{{!3}}\n{named}"
