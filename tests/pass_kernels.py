"""Small kernels for the tests of passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region, Value
from gristmill.ir.dtypes import Access, DType, MemType, Space, bool_, i32
from gristmill.ir.text import parse_kernel

HEAD = "kernel t t\n{params}workgroup {size} 1 1\nindex i32\n{extra}body({args}) {{\n{body}}}\n"


def text_kernel(
    body: str, buffers: Sequence[str] = (), *, size: int = 1, extra: str = "", scalars: str = ""
) -> Kernel:
    """A kernel from the text of its body. `buffers` are "name type access"; they are values 0, 1,
    ..., followed by `scalars` ("name type ...")."""
    params, args = [], []
    for name, dtype, access in (b.split() for b in buffers):
        args.append(f"%{name}.{len(args)}: buffer<{dtype},{access}>")
        params.append(f"param {name}: {dtype} buffer {access}\n")
    words = scalars.split()
    for name, dtype in zip(words[::2], words[1::2], strict=True):
        args.append(f"%{name}.{len(args)}: {dtype}")
        params.append(f"param {name}: {dtype} scalar\n")
    return parse_kernel(
        HEAD.format(params="".join(params), size=size, extra=extra, args=", ".join(args), body=body)
    )


def elementwise(
    build: Callable[..., Value], inputs: Sequence[DType], result: DType, lanes: int = 1
) -> Kernel:
    """out[i] = build(builder, in0[i], ...) for one invocation per element (or vector)."""
    b = Builder()
    params, args = [], []
    for n, t in enumerate(inputs):
        params.append(Param(f"x{n}", "buffer", t, Access.READ))
        args.append(b.value(MemType(Space.BUFFER, t, None, Access.READ)))
    params.append(Param("out", "buffer", result, Access.WRITE))
    args.append(b.value(MemType(Space.BUFFER, result, None, Access.WRITE)))
    i = b.emit("global_id", type=i32, dim=0)
    attrs = {"lanes": lanes} if lanes > 1 else {}
    loaded = [b.op("load", (x, i), attrs).result for x in args[:-1]]
    b.do("store", args[-1], i, build(b, *loaded))
    b.do("return")
    body = Region(tuple(args), tuple(b.ops))
    return Kernel("e", "t", tuple(params), (1, 1, 1), i32, body)


def patterns(dtype: DType, rng: np.random.Generator, count: int = 64) -> np.ndarray:
    """Values of a type, the difficult ones first, in the memory form of the type."""
    if dtype == bool_:
        return np.array([False, True])
    whole = f"u{dtype.bytes}"
    if dtype.is_float:
        special = [special_bits(v, dtype) for v in SPECIAL_FLOATS] + _edges(dtype)
    else:
        special = [0, 1, 2, 3, 7, dtype.min, dtype.max, dtype.max - 1, dtype.max // 3, -1, -2, -7]
    mask = (1 << dtype.bits) - 1
    words = np.array([s & mask for s in special], np.uint64).astype(whole)
    random = rng.integers(0, 256, (count, dtype.bytes), dtype=np.uint8).view(whole)[:, 0]
    return np.concatenate([words, random]).view(dtype.storage)


SPECIAL_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, float("inf"), float("-inf"), float("nan"),
    1e-3, 255.0, 256.0, 65504.0, 65519.0, 65520.0, -65520.0, 127.5, -128.5, 2147483648.0, 1e10,
    -3e9, 1.8446744073709552e19, 6e-8, 3e-8, 2.9e-8, 1e-40,
)  # fmt: skip


def special_bits(value: float, dtype: DType) -> int:
    from gristmill.ir.core import float_bits

    return float_bits(value, dtype)


def _edges(dtype: DType) -> list[int]:
    """Least and greatest denormal and normal numbers, and the neighbours of ties."""
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[dtype.name]
    normal = 1 << mantissa
    top = ((1 << (dtype.bits - 1)) - 1) & ~(normal - 1)
    out = [1, 2, normal - 1, normal, normal + 1, top - 1]
    if dtype.bits >= 32:  # ties of narrower formats, and just beside them
        base = special_bits(1.0, dtype)
        for cut in (mantissa - 7, mantissa - 10, 16):
            half = 1 << (cut - 1)
            out += [base + half, base + half + 1, base + half - 1, base + 3 * half]
    return out


def pairs(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every element of a with every element of b."""
    return np.repeat(a, len(b)), np.tile(b, len(a))
