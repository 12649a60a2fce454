"""mma.sync and ldmatrix, as passes ask for them (`ir.passes.fragments_nv`)."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.core import Kernel, Op, ops_named
from ...ir.dtypes import element_of, lanes_of
from ...ir.passes.fragment_operands import product_kinds
from ...ir.passes.fragments_nv import SUBGROUP, Products, multiplies
from ..simt.memory import folded_place
from .lowering import SHARED, Lowering

_WHOLE = {"i8": "s8", "u8": "u8"}
_EIGHT = {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}
_ISA, _ISA_EIGHT = "6.5", "8.4"  # of PTX: the least with products, and with those of 8-bit floats


def isa(kernel: Kernel, products: Products) -> str:
    """The least version of PTX for a kernel's products, before or after its passes; empty if it
    has none."""
    made = [*ops_named(kernel.body, "nv_mma", "nv_ldmatrix")]
    kinds = set()
    if kernel.subgroup == SUBGROUP and multiplies(kernel, products):
        kinds = product_kinds(kernel) & {kind for kind, _, _ in products}
        made += ops_named(kernel.body, "fragment_mma")
    if "f8" in kinds or any(op.name == "nv_mma" and op.attr("a") in _EIGHT for op in made):
        return _ISA_EIGHT
    return _ISA if made else ""


def emit_mma(x: Lowering, op: Op) -> None:
    """A product of mMn8kK: registers of a, b and the sum."""
    f, shape = x.f, op.attr("shape")
    a, b = str(op.attr("a")), str(op.attr("b"))
    left, right, total = (x.parts(v) for v in op.operands)
    kind = "i32"
    if a == "f16":
        kind = "<2 x half>"
        left, right = ([f.value(f"bitcast i32 {w} to {kind}") for w in p] for p in (left, right))
    elif a == "f32":  # rounded to nearest; else the hardware cuts off what tf32 does not hold
        left, right = ([_tf32(x, w) for w in parts] for parts in (left, right))
    element = element_of(op.result.type)
    result = x.type_of(op.result).text
    if a == "f16":
        name = "f32.f32" if element.is_float else "f16.f16"
    elif a in _WHOLE:
        name = _WHOLE[a] if a == b else f"{_WHOLE[a]}.{_WHOLE[b]}"
    elif a in _EIGHT:
        name = f"f32.{_EIGHT[a]}.{_EIGHT[b]}.f32"
    else:
        name = {"bf16": "bf16", "f32": "tf32"}[a]
    packed = name == "f16.f16"
    if packed:
        result = "<2 x half>"
        total = [f.value(f"bitcast i32 {w} to {result}") for w in total]
    group = f"{{ {', '.join([result] * len(total))} }}"
    arguments = [(kind, w) for w in (*left, *right)] + [(result, w) for w in total]
    done = f.call(f"llvm.nvvm.mma.{shape}.row.col.{name}", group, *arguments)
    parts = [f.value(f"extractvalue {group} {done}, {n}") for n in range(len(total))]
    if packed:
        parts = [f.value(f"bitcast {result} {p} to i32") for p in parts]
    x.set(op.result, parts)


def _tf32(x: Lowering, word: str) -> str:
    value = x.f.value(f"bitcast i32 {word} to float")
    return x.f.call("llvm.nvvm.f2tf32.rna", "i32", ("float", value))


def emit_ldmatrix(x: Lowering, op: Op) -> None:
    """Four matrices of 8 rows of 16 bytes from workgroup memory."""
    f, memory = x.f, x.memory[op.operands[0].id]
    pointer = folded_place(x, memory, op.operands[1])
    tail = ".trans" if op.attr("transposed") else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{tail}.b16.p3"
    group = "{ i32, i32, i32, i32 }"
    done = f.call(name, group, (SHARED, pointer))
    count = lanes_of(op.result.type)
    x.set(op.result, [f.value(f"extractvalue {group} {done}, {n}") for n in range(count)])


EMIT: dict[str, Callable[[Lowering, Op], None]] = {
    "nv_mma": emit_mma,
    "nv_warp_mma": emit_mma,
    "nv_ldmatrix": emit_ldmatrix,
}
