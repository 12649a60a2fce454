"""Matrix product with tiles in workgroup memory and a block of results per invocation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    DType,
    Function,
    Read,
    Write,
    barrier,
    bool_,
    ceil_div,
    convert,
    device,
    f32,
    fma,
    group_id,
    i32,
    kernel,
    load_vector,
    local_id,
    registers,
    static_assert,
    static_range,
    store_vector,
    vec,
    workgroup_array,
)
from .family import (
    Args,
    Bound,
    Constexprs,
    Expected,
    Family,
    bound,
    decode,
    dtype,
    empty,
    normal,
)
from .tile_products import add_products


@device
def identity(value):
    """An epilogue that leaves a result as it is."""
    return value


@device
def relu(value):
    """max(value, 0)"""
    return max(value, 0)


@device
def fill_tile(tile, source, row0, col0, rows, cols, HEIGHT, WIDTH, STAGE, TX, TY, RUNS):
    """tile = source[row0 : row0 + HEIGHT, col0 : col0 + WIDTH], zero outside rows x cols.

    RUNS: every TX neighbours copy a run of their own, which touches few pages at a time; else all
    invocations copy neighbouring elements.
    """
    lid = local_id(1) * TX + local_id(0)
    steps = ceil_div(HEIGHT * WIDTH, TX * TY)
    whole = HEIGHT * WIDTH % (TX * TY) == 0
    if row0 + HEIGHT <= rows and col0 + WIDTH <= cols:
        if whole and TX * TY % WIDTH == 0 and not RUNS:
            # Every step copies whole rows: each invocation stays in its column.
            row = lid // WIDTH
            col = lid % WIDTH
            down = TX * TY // WIDTH
            first = (row0 + row) * cols + col0 + col
            for step in range(steps):
                tile[row + step * down, col] = convert(source[first + step * down * cols], STAGE)
        else:
            for step in range(steps):
                at = lid + step * (TX * TY)
                if RUNS:
                    at = (local_id(1) * steps + step) * TX + local_id(0)
                row = at // WIDTH
                col = at % WIDTH
                if whole or at < HEIGHT * WIDTH:
                    tile[row, col] = convert(source[(row0 + row) * cols + col0 + col], STAGE)
    else:
        for at in range(lid, HEIGHT * WIDTH, TX * TY):
            row = at // WIDTH
            col = at % WIDTH
            from_row = row0 + row
            from_col = col0 + col
            value = convert(0, STAGE)
            if from_row < rows and from_col < cols:
                value = convert(source[from_row * cols + from_col], STAGE)
            tile[row, col] = value


@device
def staged(a, b, c, m, n, k, STAGE, OUT, EPILOGUE, STAGE_A, DOWN, TX, TY, TM, TN, TK, DEEP):
    """Tiles of b, and of a where STAGE_A, go through workgroup memory in steps of TK along k."""
    tile_b = workgroup_array(STAGE, (TK, TX * TN))
    lx = local_id(0)
    ly = local_id(1)
    top = group_id(0 if DOWN else 1) * (TY * TM)
    left = group_id(1 if DOWN else 0) * (TX * TN)
    first = top + ly * TM
    acc = registers(f32, (TM, TN), 0)
    starts = registers(i32, TM, 0)
    cols = registers(i32, TN, 0)
    inside = registers(bool_, TN, False)
    for j in static_range(TN):
        cols[j] = left + lx + j * TX
        inside[j] = cols[j] < n
    if STAGE_A:
        tile_a = workgroup_array(STAGE, (TY * TM, TK))
    else:
        for i in static_range(TM):
            starts[i] = min(first + i, m - 1) * k
    # Once even for k = 0: the sums are written in the last turn, beside the products of others.
    for k0 in range(0, max(k, 1), TK):
        if STAGE_A:
            fill_tile(tile_a, a, top, k0, m, k, TY * TM, TK, STAGE, TX, TY, False)
        fill_tile(tile_b, b, k0, left, k, n, TK, TX * TN, STAGE, TX, TY, not STAGE_A)
        barrier()
        depth = min(TK, k - k0)
        if not STAGE_A:
            depth = depth if first < m else 0  # subgroups below the last row rest
        # Tiles are zero below their depth.
        rows = tile_a if STAGE_A else a
        add_products(acc, rows, tile_b, starts, k0, depth, STAGE_A, TX, TM, TN, DEEP)
        if k0 + TK >= k:
            for i in static_range(TM):
                if first + i < m:
                    base = (first + i) * n
                    for j in static_range(TN):
                        if inside[j]:
                            c[base + cols[j]] = convert(EPILOGUE(acc[i, j]), OUT)
        barrier()


@device
def direct(a, b, c, m, n, k, OUT, EPILOGUE, DOWN, TX, TY, TM, TN):
    """Operands come straight from their buffers, four along k at a time where rows allow it."""
    top = (group_id(0 if DOWN else 1) * TY + local_id(1)) * TM
    left = (group_id(1 if DOWN else 0) * TX + local_id(0)) * TN
    if n % TN == 0 and k % 4 == 0:
        if left < n and top < m:
            acc = registers(vec(f32, TN), TM, 0)
            width = n // TN
            column = left // TN
            deep = k // 4
            starts = registers(i32, TM, 0)
            for i in static_range(TM):
                starts[i] = min(top + i, m - 1) * deep
            for q in range(deep):
                rows = registers(vec(f32, TN), 4, 0)
                for d in static_range(4):
                    rows[d] = convert(load_vector(b, (4 * q + d) * width + column, TN), f32)
                for i in static_range(TM):
                    up = convert(load_vector(a, starts[i] + q, 4), f32)
                    for d in static_range(4):
                        acc[i] = fma(vec(f32, TN)(up[d]), rows[d], acc[i])
            for i in static_range(TM):
                if top + i < m:
                    at = (top + i) * width + column
                    store_vector(c, at, convert(EPILOGUE(acc[i]), OUT))
    else:
        for row in range(top, min(top + TM, m)):
            sums = registers(f32, TN, 0)
            for kk in range(k):
                up = convert(a[row * k + kk], f32)
                for j in static_range(TN):
                    right = convert(b[kk * n + min(left + j, n - 1)], f32)
                    sums[j] = fma(up, right, sums[j])
            for j in static_range(TN):
                if left + j < n:
                    c[row * n + left + j] = convert(EPILOGUE(sums[j]), OUT)


@kernel(
    workgroup=lambda: (TX, TY, 1),
    grid=lambda: (
        ceil_div(m, TY * TM) if DOWN else ceil_div(n, TX * TN),
        ceil_div(n, TX * TN) if DOWN else ceil_div(m, TY * TM),
        1,
    ),
)
def matmul(
    a: Read[T],
    b: Read[T],
    c: Write[OUT],
    m: i32,
    n: i32,
    k: i32,
    *,
    T: DType = f32,
    STAGE: DType = f32,
    OUT: DType = f32,
    EPILOGUE: Function = identity,
    STAGED: bool = True,
    STAGE_A: bool = True,
    DOWN: bool = False,
    TX: int = 16,
    TY: int = 16,
    TM: int = 4,
    TN: int = 4,
    TK: int = 32,
    DEEP: int = 1,
    SUBGROUP: int = 1,
):
    """c = EPILOGUE(a @ b); a is m x k, b is k x n, c is m x n, all row-major.

    A workgroup of TX x TY invocations makes a tile of TY*TM x TX*TN results, TM x TN per
    invocation. Products of T accumulate in f32 in the order of k, by fma. STAGED: through tiles
    of type STAGE in workgroup memory, TK deep; else straight from the buffers, which is better
    where barriers are dear (software Vulkan). STAGE_A: the tiles of a, too; without it a row of a
    is read in place, which is better where all lanes of a subgroup share it (a CPU). DOWN: the
    workgroups are numbered down the columns of c, so that neighbours share a panel of b. DEEP: with
    STAGE_A, products that each turn of the inner loop adds, where compilers unroll no loops.
    """
    static_assert(DEEP == 1 or (STAGE_A and TK % DEEP == 0), "DEEP divides TK, with STAGE_A")
    if STAGED:
        staged(a, b, c, m, n, k, STAGE, OUT, EPILOGUE, STAGE_A, DOWN, TX, TY, TM, TN, TK,
               DEEP)  # fmt: skip
    else:
        direct(a, b, c, m, n, k, OUT, EPILOGUE, DOWN, TX, TY, TM, TN)


Shape = tuple[int, int, int]


def product_args(
    rng: np.random.Generator, shape: Shape, t: DType, out: DType, columns: bool = False
) -> Args:
    """Arguments of a product of the shape (m, n, k); columns: b is n x k."""
    m, n, k = shape
    return {
        "a": normal(rng, (m, k), t),
        "b": normal(rng, (n, k) if columns else (k, n), t),
        "c": empty((m, n), out),
        "m": m,
        "n": n,
        "k": k,
    }


def expected_product(
    args: Args, constexprs: Constexprs, out: DType, error: np.ndarray, columns: bool = False
) -> dict[str, Expected]:
    """What a product, times `scale` where there is one, is to give. error: of a sum of products,
    relative to that of their sizes."""
    t = dtype(constexprs)
    a, b = decode(args["a"], t), decode(args["b"], t)
    b = b.T if columns else b
    factor = np.float64(np.float32(args.get("scale", 1.0)))
    value = a @ b * factor
    name = str(getattr(constexprs["EPILOGUE"], "name", constexprs["EPILOGUE"]))
    if name.endswith("relu"):
        value = np.maximum(value, 0)
    size = (np.abs(a) @ np.abs(b)) * np.abs(factor)
    return {"c": Expected(value, PRODUCT_BOUND(size=size, error=error, value=value, T=out))}


def product_bound(error: Bound) -> Bound:
    """That of `expected_product`, with what `error` is there."""
    terms = {**PRODUCT_BOUND.terms, "error": error.formula, **error.terms}
    return Bound(PRODUCT_BOUND.formula, terms)


PRODUCT_BOUND = bound(
    "size * error + abs(value) * u(T) + least(T)",
    size="the sum of the products' magnitudes, times the scale",
    error="of the sum, relative to size",
)


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, out = dtype(constexprs), dtype(constexprs, "OUT")
    for shape in ((1, 1, 1), (64, 64, 64), (70, 33, 100), (128, 65, 5), (3, 7, 600)):
        yield product_args(rng, shape, t, out)


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    return expected_product(args, constexprs, dtype(constexprs, "OUT"), _ERROR(k=args["k"]))


# Not every target fuses: two roundings a term. The type of the tiles holds every value of T.
_ERROR = bound("gamma(2 * k + 2, f32)", k="the argument")


FAMILIES = (
    Family(
        matmul,
        _inputs,
        _reference,
        "f32 accumulation in the order of k; rounded once",
        {"": product_bound(_ERROR)},
    ),
)
