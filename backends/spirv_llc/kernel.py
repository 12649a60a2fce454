"""A whole kernel as one LLVM module: its parameters, the place of its group, the body."""

from __future__ import annotations

from ...ir import abi
from ...ir.core import Kernel, walk
from ...ir.dtypes import DType, element_of
from ..llvm.text import Function
from ..llvm.types import scalar_type
from ..usage import Usage
from .lowering import UNIFORM
from .target import VulkanLowering

# No kernel and nothing of LLVM's has a name with a dot at its end.
ENTRY = "kernel."
_ATTRIBUTES = 'convergent nounwind "hlsl.shader"="compute" "hlsl.numthreads"="{},{},{}"'


def write_kernel(kernel: Kernel, usage: Usage) -> tuple[str, VulkanLowering]:
    """The LLVM module of a legalized kernel, and what its emission knows."""
    f = Function(f'"{ENTRY}"', [])
    x = VulkanLowering(kernel, usage, f)
    f.head += " " + _ATTRIBUTES.format(*x.size)
    _bind(x)
    live, main, end = _place_group(x), f.label("main"), f.label("end")
    f.branch_if(live, main, end)
    f.block(main)
    x.control.body(kernel.body, end)
    f.block(end)
    f.ret()
    return f"{x.declarations.head()}\n{f.text()}\n{x.declarations.tail()}", x


def _bind(x: VulkanLowering) -> None:
    """Define what the parameters are, from the words of the parameter block."""
    f, kernel = x.f, x.kernel
    layout = abi.word_layout(kernel.params, kernel.index)
    block = x.memories.parameters(layout.size)
    quads: dict[int, str] = {}

    def word(at: int) -> str:
        if at // 4 not in quads:
            place = f.value(f"getelementptr {block}, i32 0, i32 0, i32 {at // 4}")
            quads[at // 4] = f.value(f"load <4 x i32>, {UNIFORM} {place}")
        return f.value(f"extractelement <4 x i32> {quads[at // 4]}, i64 {at % 4}")

    def value(at: int, dtype: DType) -> str:
        low = word(at)
        if dtype.is_bool:
            return f.value(f"icmp ne i32 {low}, 0")
        if dtype.bits == 64:
            high = f.value(f"shl i64 {f.value(f'zext i32 {word(at + 1)} to i64')}, 32")
            low = f.value(f"or i64 {f.value(f'zext i32 {low} to i64')}, {high}")
        if not dtype.is_float:
            return low
        return f.value(f"bitcast i{dtype.bits} {low} to {scalar_type(dtype)}")

    scalars, counts = iter(layout.scalars), iter(layout.counts)
    for param, argument in zip(kernel.params, kernel.body.args, strict=True):
        if param.is_memory:
            x.counts[argument.id] = value(next(counts), kernel.index)
        else:
            x.set(argument, [value(next(scalars), element_of(argument.type))])
    x.fault = ("", word(layout.fault_base) if kernel.sites else "0")
    x.grid = [word(layout.grid + d) for d in range(3)]


def _place_group(x: VulkanLowering) -> str:
    """Define the ids of the group; whether it is one of the grid, as i1.

    A grid beyond a device's limit is launched as (min(total, 65535), rest, 1) groups, and the
    kernel finds its group by the linear number.
    """
    f, (gx, gy, gz) = x.f, x.grid
    used = {op.attr("dim") for op in walk(x.kernel.body) if op.name in ("group_id", "global_id")}
    row, folded = x.row(), x.folded()
    raw = [x.group_word(d) for d in range(3 if 2 in used else 2)]
    linear = f.value(f"add i32 {raw[0]}, {f.value(f'mul i32 {raw[1]}, {row}')}")
    rows = f.value(f"udiv i32 {linear}, {gx}")
    total = f.value(f"mul i32 {f.value(f'mul i32 {gx}, {gy}')}, {gz}")
    decoded = (f"urem i32 {linear}, {gx}", f"urem i32 {rows}, {gy}", f"udiv i32 {rows}, {gy}")
    for d, text in enumerate(decoded):
        if d in used:
            chosen = f"select i1 {folded}, i32 {f.value(text)}, i32 {raw[d]}"
            x.group[d] = x.as_index(f.value(chosen))
    inside = f.value(f"icmp ult i32 {linear}, {total}")
    return f.value(f"or i1 {inside}, {f.value(f'xor i1 {folded}, true')}")
