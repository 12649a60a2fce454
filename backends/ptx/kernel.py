"""A whole kernel as one LLVM function: parameters, the place of its group, the body."""

from __future__ import annotations

from ...ir import abi, extensions
from ...ir.core import Kernel, walk
from ...ir.dtypes import Access, MemType
from ...ir.ops.nv import FEATURE
from ..llvm.text import Function
from ..llvm.types import Ty, memory_type
from . import body
from .arch import Arch
from .ids import place_group
from .intrinsics import unknown
from .lowering import GLOBAL, Lowering, LoweringError, Memory
from .nv_groups import find_warp
from .shared import Block, declare_shared

# no-builtins: a loop that copies or clears must not become a call of memcpy or memset.
_ATTRIBUTES = 'nounwind "no-builtins" "nvvm.reqntid"="{x},{y},{z}"'
# Approximate functions of denormals take more instructions than all the rest of them.
_FLUSH = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"'
_MAP = f'ptr byval([{abi.MAP_BYTES} x i8]) align {abi.MAP_ALIGN} "nvvm.grid_constant"'
# What stands between the parts of a kernel that touch memory of other invocations.
_ORDERING = frozenset(("barrier", "fence"))


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
    f = Function(kernel.name, _parameters(kernel), attributes, "ptx_kernel")
    x = Lowering(kernel, arch, f)
    _bind(x)
    place_group(x)
    find_warp(x)
    shared = declare_shared(x, block)
    body.emit_region(x, kernel.body)
    if odd := unknown(f.declarations):
        raise LoweringError(f"intrinsics outside the table: {', '.join(odd)}", None)
    return f"{shared}{f.text()}\n!0 = !{{}}\n"


def _parameters(kernel: Kernel) -> list[str]:
    """The signature in the order of `ir.abi.gpu_layout`."""
    ordered = any(op.name in _ORDERING or op.name in FEATURE for op in walk(kernel.body))
    found = []
    for n, param in enumerate(abi.memory_params(kernel.params)):
        words = [GLOBAL]
        if param.access is Access.READ and not param.may_alias:
            words.append("noalias readonly")
        elif not param.may_alias and not ordered:
            # LLVM takes memory behind a noalias pointer for untouched by a barrier, but other
            # invocations write it.
            words.append("noalias")
        found.append(" ".join((*words, f"align 16 %buffer{n}")))
    for n, param in enumerate(abi.scalar_params(kernel.params)):
        found.append(f"{memory_type(param.dtype)} %scalar{n}")
    found += [f"i64 %count{n}" for n in range(len(abi.memory_params(kernel.params)))]
    if kernel.sites:
        found += [f"{GLOBAL} noalias align 4 %faults", "i32 %fault_base"]
    if "grid_barrier" in extensions.used(kernel):
        found.append(f"{GLOBAL} align 4 %grid_counter")
    found += ["i32 %gx", "i32 %gy", "i32 %gz"]
    maps = len(extensions.tensor_maps(kernel))
    return [*found, *(f"{_MAP} %map{n}" for n in range(maps))]


def _bind(x: Lowering) -> None:
    """Define what the parameters are."""
    f, kernel = x.f, x.kernel
    values = dict(zip((p.name for p in kernel.params), kernel.body.args, strict=True))
    for n, param in enumerate(abi.memory_params(kernel.params)):
        value = values[param.name]
        assert isinstance(value.type, MemType)
        constant = param.access is Access.READ and not param.may_alias
        x.memory[value.id] = Memory(value.type, f"%buffer{n}", GLOBAL, constant)
        count = f"%count{n}"
        if x.index.dtype.bits == 32:
            count = f.value(f"trunc i64 {count} to i32")
        x.counts[value.id] = count
    for n, param in enumerate(abi.scalar_params(kernel.params)):
        t = Ty(param.dtype)
        text = f"%scalar{n}"
        if param.dtype.is_bool:
            text = f.value(f"icmp ne i8 {text}, 0")
        x.set(values[param.name], [text])
        assert values[param.name].type == t.dtype
    if kernel.sites:
        x.fault = ("%faults", "%fault_base")
    x.grid = ["%gx", "%gy", "%gz"]
    x.grid_counter = "%grid_counter"
    x.maps = {view: f"%map{n}" for n, view in enumerate(extensions.tensor_maps(kernel))}
