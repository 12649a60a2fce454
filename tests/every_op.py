"""Kernels that apply every elementwise op of a type, for comparing a target with the meanings."""

from __future__ import annotations

from collections.abc import Sequence

from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region
from gristmill.ir.dtypes import DTYPES, Access, DType, MemType, Space, VectorType, bool_, i32, u32

INT_OPS = {
    2: "add sub mul min max floordiv mod and or xor shl shr mul_high",
    1: "neg abs sign not popcount clz ctz reverse_bits",
}
FLOAT_OPS = {
    3: "fma",
    2: "add sub mul min max div copysign",
    1: "neg abs sign sqrt rsqrt floor ceil trunc rint",
}
COMPARE, TESTS = "eq ne lt le gt ge", "isnan isinf isfinite"

Case = tuple[str, tuple[int, ...], DType]  # op, which inputs it takes, result


def cases(t: DType, fused: bool) -> list[Case]:
    """The ops on type `t`; inputs 0 to 2 are of that type, input 3 is bool."""
    found: list[Case] = [("select", (3, 0, 1), t)]
    if not t.computes:
        pass
    elif t.is_bool:
        found += [(name, (0, 1), t) for name in ("and", "or", "xor", "eq", "ne")]
        found += [("not", (0,), t)]
    else:
        for arity, names in (FLOAT_OPS if t.is_float else INT_OPS).items():
            found += [(name, tuple(range(arity)), t) for name in names.split()]
        found += [(name, (0, 1), bool_) for name in COMPARE.split()]
    if t.is_float and t.computes:
        found += [(name, (0,), bool_) for name in TESTS.split()]
    if t in (i32, u32):
        found += [("dot4", (0, 1, 2), t)]
    found += [("convert", (0,), u) for u in DTYPES.values()]
    return [c for c in found if fused or c[0] != "fma" or t.bits < 64]


def kernel_of(t: DType, wanted: Sequence[Case], uniform: bool, lanes: int = 1) -> Kernel:
    """out_n[i] = case n of in0[i], in1[i], ... uniform: one invocation per workgroup."""
    b = Builder()
    kinds = [(t, Access.READ)] * 3 + [(bool_, Access.READ)]
    kinds += [(out, Access.WRITE) for _, _, out in wanted]
    params = tuple(Param(f"p{n}", "buffer", d, a) for n, (d, a) in enumerate(kinds))
    args = [b.value(MemType(Space.BUFFER, d, None, a), f"p{n}") for n, (d, a) in enumerate(kinds)]
    i = b.emit("global_id", type=i32, dim=0)
    shape = {"lanes": lanes} if lanes > 1 else {}
    inputs = [b.emit("load", a, i, **shape) for a in args[:4]]
    for memory, (name, operands, out) in zip(args[4:], wanted, strict=True):
        values = [inputs[n] for n in operands]
        type_ = VectorType(out, lanes) if lanes > 1 else out
        result = b.op(name, values, {}, (type_,) if name == "convert" else None).result
        b.do("store", memory, i, result)
    b.do("return")
    size = (1 if uniform else 64, 1, 1)
    return Kernel("ops", str(t), params, size, i32, Region(tuple(args), tuple(b.ops)))
