"""Products of matrix fragments: WMMA and MFMA, as `ir.passes.fragments_amd` asks for them."""

from __future__ import annotations

from ...ir.core import Kernel, Op, Value
from ...ir.dtypes import element_of, lanes_of
from ...ir.passes import Pass
from ...ir.passes.amd_products import PRODUCTS, multiplies
from ...ir.passes.fragments_amd import AmdFragments
from ...ir.passes.fragments_pairs import PairProducts
from ...ir.passes.fragments_turning import TurningFragments
from .arch import Arch
from .lowering import Lowering
from .vectors import gather, spread

_LLVM = {"f16": "half", "f32": "float", "i32": "i32"}
_EIGHT = {"f8e4m3": "fp8", "f8e5m2": "bf8"}


def lowering(kernel: Kernel, arch: Arch) -> Pass:
    """How a kernel's fragments become values of lanes: by matrix instructions where the processor
    has them for all its products, else by plain code."""
    products = PRODUCTS.get(arch.processor.matrix)
    if products is None:
        return TurningFragments()
    if "approximate" in kernel.fast:
        products = products.flushed()
    return AmdFragments(products) if multiplies(kernel, products) else TurningFragments()


def pairing(arch: Arch) -> tuple[Pass, ...]:
    """What joins products once other passes have brought them together."""
    products = PRODUCTS.get(arch.processor.matrix)
    return (PairProducts(products.paired),) if products and products.paired else ()


def emit_mma(x: Lowering, op: Op) -> None:
    """A product of 16 x 16: words of both operands, and the lane's elements of the sum."""
    total, stored = op.operands[2], x.group_of(op.result)
    short, count = element_of(total.type).name, lanes_of(total.type)
    if op.attr("family") == "wmma11" and short == "f16":
        _emit_spaced(x, op)
        return
    group = f"<{count} x {_LLVM[short]}>"
    done = _call(x, op, group, x.vectors.cast(total, stored, group))
    if stored != group:
        done = x.f.value(f"bitcast {group} {done} to {stored}")
    x.set_vector(op.result, stored, done)


def _emit_spaced(x: Lowering, op: Op) -> None:
    """The same with a sum of f16 in the low halves of words."""
    parts = [part for one in x.parts(op.operands[2]) for part in (one, "poison")]
    wide, group = f"<{len(parts)} x i16>", f"<{len(parts)} x half>"
    whole = x.f.value(f"bitcast {wide} {gather(x.f, wide, parts)} to {group}")
    done = x.f.value(f"bitcast {group} {_call(x, op, group, whole)} to {wide}")
    x.set(op.result, spread(x.f, wide, done, 2))


def _call(x: Lowering, op: Op, group: str, total: str) -> str:
    """The instruction on a sum of type `group`."""
    family, a, b, depth = (str(op.attr(name)) for name in ("family", "a", "b", "depth"))
    left, right, _ = op.operands
    wanted = _operand(family, a, lanes_of(left.type))
    sides = [(wanted, _words(x, v, wanted)) for v in (left, right)]
    if family == "mfma":
        flags = [("i32", "0")] * 3
        return x.f.call(f"llvm.amdgcn.{_mfma(a, b, depth)}", group, *sides, (group, total), *flags)
    short = element_of(op.result.type).name
    what = f"{_EIGHT[a]}.{_EIGHT[b]}" if a in _EIGHT else "iu8" if short == "i32" else a
    name = f"llvm.amdgcn.wmma.{short}.16x16x{depth}.{what}.{_mangled(group)}.{_mangled(wanted)}"
    if what == "iu8":
        signs = [("i1", "true" if t == "i8" else "false") for t in (a, b)]
        sides = [signs[0], sides[0], signs[1], sides[1]]
    flags = [("i1", "false")] if short in ("f16", "i32") else []  # upper halves; saturation
    return x.f.call(name, group, *sides, (group, total), *flags)


def _mfma(a: str, b: str, depth: str) -> str:
    """The name of an intrinsic; those of before gfx940 are spelled in another way."""
    if a in _EIGHT:
        return f"mfma.f32.16x16x{depth}.{_EIGHT[a]}.{_EIGHT[b]}"
    older = {
        ("f16", "16"): "f16", ("bf16", "8"): "bf16", ("bf16", "16"): "bf16.1k", ("f32", "4"): "f32",
        ("f32", "8"): ".xf32", ("i8", "16"): "i8",
    }  # fmt: skip
    short = "i32" if a == "i8" else "f32"
    return f"mfma.{short}.16x16x{depth}{older.get((a, depth), f'.{a}')}"


def _operand(family: str, a: str, words: int) -> str:
    """The LLVM type of an operand of so many words."""
    if a == "f16":
        return f"<{2 * words} x half>"
    if a == "bf16":  # MFMA of gfx950 names the type, all others the bits
        return f"<{2 * words} x {'bfloat' if family == 'mfma' and words == 4 else 'i16'}>"
    if a == "f32":
        return "float" if words == 1 else f"<{words} x float>"
    if family == "mfma" and words < 4:
        return "i32" if words == 1 else "i64"
    return f"<{words} x i32>"


def _mangled(t: str) -> str:
    """A vector type as names of intrinsics have it."""
    count, element = t.strip("<>").split(" x ")
    short = {"float": "f32", "half": "f16"}.get(element, element)
    return f"v{count}{short}"


def _words(x: Lowering, words: Value, t: str) -> str:
    """Words as one value of this type."""
    if lanes_of(words.type) > 1:
        return x.vectors.cast(words, x.group_of(words), t)
    return x.scalar(words) if t == "i32" else x.f.value(f"bitcast i32 {x.scalar(words)} to {t}")


INTRINSICS = {
    "wmma.{f32,f16,i32}.16x16x16.{f16,bf16,iu8,fp8.fp8,fp8.bf8,bf8.fp8,bf8.bf8}"
    ".{v8f32,v8f16,v16f16,v8i32}.{v16f16,v8f16,v16i16,v8i16,v4i32,v2i32}": "gfx11, gfx12",
    "mfma.f32.16x16x{16f16,16bf16.1k,8bf16,4f32,8.xf32}": "gfx9, by processor",
    "mfma.i32.16x16x{16i8,32.i8}": "gfx9, by processor",
    "mfma.{f32,i32}.16x16x{32.f16,32.bf16,64.i8}": "gfx950",
    "mfma.f32.16x16x32.{fp8,bf8}.{fp8,bf8}": "gfx950",
}
EMIT = {"amd_mma": emit_mma}
