"""The parameters of a kernel: its signature, and what each of them is to the ops."""

from __future__ import annotations

from ...ir import abi, extensions
from ...ir.core import Kernel, ops_by_name
from ...ir.dtypes import Access, MemType
from ...ir.ops.nv import FEATURE
from ..llvm.types import Ty, memory_type
from .lowering import GLOBAL, Lowering, Memory

# What stands between the parts of a kernel that touch memory of other invocations.
_ORDERING = frozenset(("barrier", "fence", *FEATURE))


def parameters(kernel: Kernel) -> list[str]:
    """The signature in the order of `ir.abi.gpu_layout`, without tensor maps."""
    ordered = not _ORDERING.isdisjoint(ops_by_name(kernel.body))
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
    return [*found, "i32 %gx", "i32 %gy", "i32 %gz"]


def bind(x: Lowering) -> None:
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
