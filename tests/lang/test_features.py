"""Features of the kernel language, executed by the interpreter."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_matmul_with_register_tiles(load: Any, run: Any, rng: Any) -> None:
    module = load("""
@device
def plain(x, row, col): return x
@device
def doubled(x, row, col): return x * 2.0 + f32(row)
@kernel(workgroup=lambda: (T, T), grid=lambda: (ceil_div(n, 2 * T), ceil_div(m, 2 * T)))
def matmul(a: Read[f32], b: Read[f32], c: Write[f32], m: i32, n: i32, k: i32, *, T: int = 4, EPILOGUE: Function = plain):
    ta, tb = workgroup_array(f32, (2 * T, T)), workgroup_array(f32, (T, 2 * T + 1))
    x, y = local_id(0), local_id(1)
    row0, col0 = group_id(1) * 2 * T, group_id(0) * 2 * T
    acc = registers(f32, (2, 2))
    for k0 in range(0, k, T):
        for h in static_range(2):
            r, c0 = row0 + y + h * T, col0 + x + h * T
            ta[y + h * T, x] = a[r * k + k0 + x] if r < m and k0 + x < k else 0.0
            tb[y, x + h * T] = b[(k0 + y) * n + c0] if c0 < n and k0 + y < k else 0.0
        barrier()
        for kk in range(T):
            for p in static_range(2):
                for q in static_range(2):
                    acc[p, q] += ta[y + p * T, kk] * tb[kk, x + q * T]
        barrier()
    for p in static_range(2):
        for q in static_range(2):
            row, col = row0 + y + p * T, col0 + x + q * T
            if row < m and col < n:
                c[row * n + col] = EPILOGUE(acc[p, q], row, col)
""")
    m, n, k = 13, 10, 9
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    for epilogue in ("plain", module.doubled):
        c = np.zeros((m, n), np.float32)
        run(
            module.matmul,
            a.ravel(),
            b.ravel(),
            c.reshape(-1),
            m,
            n,
            k,
            grid=(2, 2, 1),
            EPILOGUE=epilogue,
        )
        expected = a.astype(np.float64) @ b
        if epilogue != "plain":
            expected = expected * 2 + np.arange(m)[:, None]
        np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-4)


def test_early_returns_within_loops_of_device_functions(load: Any, run: Any) -> None:
    text = """
def find(n, limit):
    for a in range(limit):
        b = 0
        while b < limit:
            if a * b == n:
                if a > 2:
                    return a
                return -b
            b += 1
    return 1000
def nothing(n):
    if n > 5:
        return
    for k in range(n):
        if k == 3:
            return
"""
    plain: dict[str, Any] = {}
    exec(text, plain)
    module = load(
        text
        + """
find, nothing = device(find), device(nothing)
@kernel(workgroup=lambda: 32)
def k(out: Write[i32]):
    i = global_id(0)
    nothing(i)
    out[i] = find(i, 6)
"""
    )
    out = np.zeros(64, np.int32)
    run(module.k, out, grid=(2, 1, 1))
    assert out.tolist() == [plain["find"](i, 6) for i in range(64)]


def test_register_arrays_are_shared_with_device_functions(load: Any, run: Any) -> None:
    module = load("""
@device
def fill(r, n):
    for j in static_range(3):
        r[j] += n
        if n > 2:
            return r[0]
    return 0
@kernel(workgroup=lambda: 4)
def k(out: Write[i32]):
    r = registers(i32, 3, 1)
    total = 0
    for step in range(3):
        total += fill(r, local_id(0))
    for j in static_range(3):
        out[local_id(0) * 4 + j] = r[j]
    out[local_id(0) * 4 + 3] = total
""")
    out = np.zeros(16, np.int32)
    run(module.k, out)
    r2 = [1 + 2 * 3] * 3
    assert out.reshape(4, 4).tolist() == [
        [1, 1, 1, 0],
        [4, 4, 4, 0],
        [*r2, 0],
        [10, 1, 1, 4 + 7 + 10],
    ]


def test_private_arrays_start_as_zeros_each_time(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 2)
def k(out: Write[i32]):
    for j in range(3):
        p = private_array(i32, 4)
        p[j] += local_id(0) + 1
        out[local_id(0) * 3 + j] = p[0] + p[1] + p[2] + p[3]
""")
    out = np.zeros(6, np.int32)
    run(module.k, out)
    assert out.tolist() == [1, 1, 1, 2, 2, 2]


def test_static_loops_leave_early(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 8)
def k(out: Write[i32]):
    i, x = local_id(0), 0
    for j in static_range(6):
        if j == i:
            continue
        if j > 3 and i == 7:
            break
        for m in range(2):
            if m == 1:
                break
            x += 1
        x += j * 10
    for v in (1, 2, 4):
        x += v * 1000
    out[i] = x
""")
    out = np.zeros(8, np.int32)
    run(module.k, out)
    expected = []
    for i in range(8):
        x = 0
        for j in range(6):
            if j == i:
                continue
            if j > 3 and i == 7:
                break
            x += 1 + j * 10
        expected.append(x + 7000)
    assert out.tolist() == expected


def test_a_loop_that_only_breaks_defines_variables(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 8)
def k(out: Write[i32]):
    n = local_id(0)
    while True:
        n += 3
        if n > 6:
            found = n * 2
            break
    out[local_id(0)] = found
""")
    out = np.zeros(8, np.int32)
    run(module.k, out)
    assert out.tolist() == [18, 14, 16, 18, 14, 16, 18, 20]


def test_atomics_subgroups_slots_and_buffer_tuples(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 16)
def k(xs: Buffers[Read[i32], 2], s: slot[i32], out: ReadWrite[i32], *, SUBGROUP: int = 8):
    i = local_id(0)
    t = workgroup_array(i32, 2)
    if i < 2:
        t[i] = 0
    barrier()
    atomic_add(t, i % 2, xs[0][i])
    atomic_max(out, 0, xs[1][i])
    barrier()
    if i == 0:
        out[1] = t[0] * 1000 + t[1]
        out[2] = atomic_compare_exchange(out, 3, 0, s)
        out[2] += atomic_exchange(out, 3, 5) + atomic_or_(out, 4, 9)
    total = subgroup_add(xs[0][i])
    first = subgroup_exclusive_add(xs[0][i])
    out[8 + i] = total + first * 1000 + subgroup_shuffle_xor(i, 1) * 100000
    if subgroup_elect():
        out[5 + subgroup_id()] = i32(subgroup_size())
    if subgroup_all(i < 100) and subgroup_any(i == 3) and i == 3:
        out[7] = 1
""")
    x = np.arange(16, dtype=np.int32)
    out = np.zeros(24, np.int32)
    run(module.k, x, x * 3 - 5, np.array([7], np.int32), out)
    assert out[0] == 40
    assert out[1] == sum(range(0, 16, 2)) * 1000 + sum(range(1, 16, 2))
    assert out[2:8].tolist() == [7, 5, 9, 8, 8, 1]
    for i in range(16):
        group = x[i // 8 * 8 : i // 8 * 8 + 8]
        assert out[8 + i] == group.sum() + group[: i % 8].sum() * 1000 + (i ^ 1) * 100000


def test_vector_access_counts_whole_vectors(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 4)
def k(x: Read[f32], y: Write[f32]):
    i = local_id(0)
    v = load_vector(x, i, 4)
    v[0] += 1.0
    store_vector(y, i, v * 2.0 + f32x4(v.w))
""")
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    run(module.k, x, y)
    v = x.reshape(4, 4) + np.array([1, 0, 0, 0])
    assert y.reshape(4, 4).tolist() == (v * 2 + v[:, 3:]).tolist()


def test_loop_variables_behave_as_pythons(load: Any, run: Any) -> None:
    text = """
def last(n):
    i = 7
    for i in range(n):
        i += 10
    for j in range(n, -3, -2):
        i += j
        j = 100
    return i
"""
    plain: dict[str, Any] = {}
    exec(text, plain)
    module = load(
        text
        + """
last = device(last)
@kernel(workgroup=lambda: 8)
def k(out: Write[i32]):
    out[local_id(0)] = last(local_id(0))
"""
    )
    out = np.zeros(8, np.int32)
    run(module.k, out)
    assert out.tolist() == [plain["last"](n) for n in range(8)]


def test_wide_indices_take_i32_values(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 8)
def k(x: Read[f32], y: Write[f32], n: i32, *, INDEX: DType = i64):
    t = workgroup_array(f32, (2, 4))
    i = global_id(0) + n
    t[local_id(0) // 4, local_id(0) % 4] = x[i]
    barrier()
    total, count = 0.0, 0
    for j in range(len(x)):
        if j % 2 == 0:
            total += x[j]
            count += n + 1
    y[local_id(0)] = total + f32(count) + t[u32(1), 0]
""")
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(module.k, x, y, 0)
    assert y.tolist() == [12 + 4 + 4] * 8


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f64", "i8", "u64"])
def test_every_type_in_one_kernel(dtype: str, load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 4)
def k(x: Read[T], y: Write[f32], *, T: DType):
    i = local_id(0)
    acc = T(0)
    r = registers(vec(T, 2), 2, 1)
    for j in range(4):
        acc += x[j] * 2
        r[1] += vec(T, 2)(x[j])
    y[i] = f32(max(acc, x[i])) + f32(r[1][0]) + f32(-r[0].y if T.is_float else r[0].y)
""")
    x = np.arange(4)
    data = x.astype("float32").view("uint16")[1::2].copy() if dtype == "bf16" else x.astype(
        {"f16": "float16", "f64": "float64", "i8": "int8", "u64": "uint64"}[dtype])  # fmt: skip
    y = np.zeros(4, np.float32)
    run(module.k, data, y, T=dtype)
    assert y.tolist() == [12 + 7 + (1 if dtype[0] in "iu" else -1)] * 4
