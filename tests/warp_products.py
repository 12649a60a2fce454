"""Products of registers by subgroups (`nv.mma`), for the tests of each layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from gristmill.ir.lang import *
from gristmill.kernels.family import DTYPES, encode
from nv_kernels import Case, packed


@kernel(workgroup=lambda: 64, grid=lambda: len(c) // 256)
def warp_product(a: Read[A], b: Read[B], c: ReadWrite[SUM], *, A: DType = f16, B: DType = f16,
                 SUM: DType = f32, SUBGROUP: int = 32):  # fmt: skip
    """c += a @ b of 16 x 8 matrices by each subgroup; 32 bytes of depth, columns of b in rows."""
    own = i32(group_id(0)) * 2 + i32(subgroup_id())
    g, t = i32(subgroup_lane()) // 4, i32(subgroup_lane()) % 4
    per = 4 // A.bytes
    row = 8 * per
    left = registers(u32, 4)
    right = registers(u32, 2)
    for n in static_range(4):
        line = own * 16 + g + 8 * (n % 2)
        left[n] = packed(a, line * row + n // 2 * 4 * per + t * per, per)
    for n in static_range(2):
        right[n] = packed(b, (own * 8 + g) * row + n * 4 * per + t * per, per)
    total = registers(SUM, 4)
    for n in static_range(4):
        total[n] = c[own * 128 + (g + 8 * (n // 2)) * 8 + 2 * t + n % 2]
    nv.mma(total, left, right, A if A == B else (A, B))
    for n in static_range(4):
        c[own * 128 + (g + 8 * (n // 2)) * 8 + 2 * t + n % 2] = total[n]


WARP_PRODUCTS: tuple[dict[str, Any], ...] = (
    {},
    {"A": "bf16", "B": "bf16"},
    {"A": "i8", "B": "i8", "SUM": "i32"},
    {"A": "u8", "B": "i8", "SUM": "i32"},
)


def warp_case(rng: np.random.Generator, constexprs: dict[str, Any]) -> Case:
    """Three workgroups' products of small integers, and of denormals in f16: exact."""
    a_type, b_type = (DTYPES[constexprs.get(name, "f16")] for name in "AB")
    depth = 32 // a_type.bytes
    low = 0 if a_type.name == "u8" else -8
    a = rng.integers(low, 8, (6, 16, depth)).astype(np.float64)
    b = rng.integers(-8, 8, (6, 8, depth)).astype(np.float64)
    c = rng.integers(-100, 100, (6, 16, 8)).astype(np.float64)
    if a_type.name == "f16":
        a, c = a * 2.0**-24, c * 2.0**-24
    wanted = c + a @ b.swapaxes(1, 2)
    out = np.int32 if "SUM" in constexprs else np.float32
    args = [encode(a, a_type).reshape(-1), encode(b, b_type).reshape(-1), c.astype(out).reshape(-1)]
    return args, {2: wanted.astype(out).reshape(-1)}
