"""Every op on every type gives its meaning bit for bit, lane by lane and as a uniform scalar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from cpu_runner import Artifact
from elementwise import expected, samples, worst
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region
from gristmill.ir.dtypes import DTYPES, Access, DType, MemType, Space, VectorType, bool_, i32, u32
from gristmill.ir.ops import ROWS

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
COUNT = 2048

Case = tuple[str, tuple[int, ...], DType]  # op, which inputs it takes, result


def cases(t: DType, fused: bool) -> list[Case]:
    """The ops on type `t`; inputs 0 to 2 are of that type, input 3 is bool."""
    found: list[Case] = [("select", (3, 0, 1), t)]
    if t.is_bool:
        found += [(name, (0, 1), t) for name in ("and", "or", "xor", "eq", "ne")]
        found += [("not", (0,), t)]
    else:
        for arity, names in (FLOAT_OPS if t.is_float else INT_OPS).items():
            found += [(name, tuple(range(arity)), t) for name in names.split()]
        found += [(name, (0, 1), bool_) for name in COMPARE.split()]
    if t.is_float:
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


def failures(
    t: DType, arch: str, uniform: bool, lanes: int, rng: np.random.Generator
) -> Iterator[str]:
    every = cases(t, fused=arch != "x86-64-v2")
    every = [c for c in every if lanes == 1 or c[0] != "dot4"]
    kernel = kernel_of(t, every, uniform, lanes)
    inputs = [samples(d, COUNT, rng) for d in (t, t, t, bool_)]
    results = [np.zeros(COUNT, out.storage) for _, _, out in every]
    groups = COUNT // lanes // (1 if uniform else 64)
    Artifact(kernel, arch).run([*inputs, *results], (groups, 1, 1))
    for (name, operands, out), got in zip(every, results, strict=True):
        arrays, types = [inputs[n] for n in operands], [(t, t, t, bool_)[n] for n in operands]
        want = expected(name, arrays, types, out)
        at, gap = worst(got, want, out)
        allowed = (ROWS[name].ulp or 0) if name in ("rsqrt",) else 0
        if gap > allowed:
            given = ", ".join(str(a[at]) for a in arrays)
            yield f"{name}({given}) of {t} -> {out}: got {got[at]}, expected {want[at]} ({gap} ulp)"


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_op_gives_its_meaning(t: DType, arch: str, rng: np.random.Generator) -> None:
    wrong = list(failures(t, arch, False, 1, rng))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_op_gives_its_meaning_in_scalars(
    t: DType, x86: str, rng: np.random.Generator
) -> None:
    wrong = list(failures(t, x86, True, 1, rng))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_every_op_gives_its_meaning_on_vectors(
    lanes: int, rng: np.random.Generator, x86: str
) -> None:
    names = rng.permutation(list(DTYPES))[:3]
    wrong = [text for name in names for text in failures(DTYPES[str(name)], x86, False, lanes, rng)]
    assert not wrong, "\n".join(wrong)
