"""A whole kernel as one LLVM function: parameters, the place of its group, the body."""

from __future__ import annotations

from ...ir import abi, extensions
from ...ir.core import Kernel
from ..llvm.text import Function
from ..simt.body import emit_region
from ..simt.ids import place_group
from ..simt.kernel import bind, parameters
from .arch import Arch
from .intrinsics import unknown
from .lowering import LoweringError
from .nv_groups import find_warp
from .shared import Block, declare_shared
from .target import PtxLowering

# no-builtins: a loop that copies or clears must not become a call of memcpy or memset.
_ATTRIBUTES = 'nounwind "no-builtins" "nvvm.reqntid"="{x},{y},{z}"'
# Approximate functions of denormals take more instructions than all the rest of them.
_FLUSH = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_MAP = f'ptr byval([{abi.MAP_BYTES} x i8]) align {abi.MAP_ALIGN} "nvvm.grid_constant"'


def write_kernel(kernel: Kernel, arch: Arch, block: Block) -> str:
    """The LLVM module of a legalized kernel, whose workgroup arrays lie as `block` says."""
    x_, y_, z_ = kernel.workgroup
    attributes = _ATTRIBUTES.format(x=x_, y=y_, z=z_)
    if "approximate" in kernel.fast:
        attributes += _FLUSH
    if "nv_warpgroup" in extensions.used(kernel):
        attributes += ' "nvvm.minctasm"="1"'  # else ptxas leaves nv_set_max_registers out
    if (size := extensions.cluster(kernel)) > 1:
        attributes += f' "nvvm.cluster_dim"="{size},1,1"'
    maps = extensions.tensor_maps(kernel)
    signature = [*parameters(kernel), *(f"{_MAP} %map{n}" for n in range(len(maps)))]
    f = Function(kernel.name, signature, attributes, "ptx_kernel")
    x = PtxLowering(kernel, arch, f)
    bind(x)
    x.maps = {view: f"%map{n}" for n, view in enumerate(maps)}
    place_group(x)
    find_warp(x)
    shared = declare_shared(x, block)
    emit_region(x, kernel.body)
    if odd := unknown(f.declarations):
        raise LoweringError(f"intrinsics outside the table: {', '.join(odd)}", None)
    return f"{shared}{f.text()}\n!0 = !{{}}\n"
