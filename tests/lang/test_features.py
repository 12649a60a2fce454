"""Features of the kernel language, executed by the interpreter."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import walk
from gristmill.ir.lang import Diagnostic, f16, f64
from gristmill.ir.text import print_kernel


def names(kernel: Any) -> list[str]:
    return [op.name for op in walk(kernel.body)]


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


def test_faults_prints_and_names(load: Any, run: Any) -> None:
    module = load("""
@kernel(workgroup=lambda: 4)
def k(x: Read[i32], y: Write[i32]):
    i = local_id(0)
    for j in static_range(3):
        assert x[i] < 3, "x is small"
    assert x[i] >= 0
    y[i] = x[i]
    print("y", y is None, x[i], "{}")
    breakpoint()
""")
    kernel = module.k.trace("test")
    assert kernel.sites == ("x is small", "assert x[i] >= 0")
    ops = {op.name: op for op in walk(kernel.body)}
    assert ops["print"].attr("format") == "y False {} {{}}"
    assert "i" in ops["breakpoint"].attr("names")
    assert ops["load"].loc.file.endswith(module.__name__ + ".py")
    assert ops["store"].loc.line == 13


def test_types_and_index_by_constexpr(load: Any) -> None:
    module = load("""
SCALE = (1.0, np.float32(2.0))
@kernel(workgroup=lambda: (B, 2), grid=lambda: (ceil_div(len(x), B) + n, max(n, 3)), fast=("contract",))
def k(x: Read[T], y: Write[T], n: i32, *, T: DType = f32, B: int = 8, INDEX: DType = i32, FLAG: bool = False):
    i = global_id(0)
    if T is f64 and FLAG:
        static_assert(False, "unreachable unless T is f64")
    if i < len(x):
        y[i + n] = x[i] * SCALE[1] + T.bits
""")
    for dtype in ("f16", f16):
        kernel = module.k.trace("s", T=dtype, INDEX="i64")
        assert str(kernel.params[0].dtype) == "f16"
        assert str(kernel.index) == "i64"
    assert kernel.workgroup == (8, 2, 1)
    assert kernel.fast == ("contract",)
    assert kernel.grid == (
        ("add", ("ceil_div", ("count", "x"), 8), ("scalar", "n")),
        ("max", ("scalar", "n"), 3),
        1,
    )
    assert dict(kernel.constexprs)["T"] == "f16"
    with pytest.raises(Diagnostic, match="unreachable unless"):
        module.k.trace("s", T=f64, FLAG=True)
    assert module.k.constexprs["B"] == ("int", 8)


def test_tracing_leaves_no_state(load: Any) -> None:
    module = load("""
@kernel()
def a(y: ReadWrite[f32], n: i32, *, B: int = 3):
    r = registers(f32, B)
    for k in range(n):
        r[0] += y[k]
    y[0] = r[0]
@kernel()
def b(y: ReadWrite[f32]):
    t = 0.0
    for k in range(3):
        t += y[k]
    y[0] = t
""")
    alone = print_kernel(module.b.trace("s"))
    first = print_kernel(module.a.trace("s", B=2))
    with pytest.raises(Diagnostic):
        module.a.trace("s", B=0)
    assert print_kernel(module.a.trace("s", B=2)) == first
    assert print_kernel(module.b.trace("s")) == alone


def test_unchanged_registers_are_not_carried(load: Any) -> None:
    module = load("""
@kernel()
def k(y: ReadWrite[f32], n: i32):
    r = registers(f32, 4, 1.0)
    q = 2
    for k in range(n):
        r[1] += y[k] * r[0]
        t = y[k] * f32(q)
        y[k] = t
    t = n
    y[t] = r[1]
""")
    (loop,) = [op for op in walk(module.k.trace("s").body) if op.name == "for"]
    assert [str(v.type) for v in loop.results] == ["f32"]


def test_pure_conditions_become_logic_and_choices_become_selects(load: Any) -> None:
    module = load("""
@kernel()
def k(x: Read[f32], y: Write[f32], n: i32):
    a = n > 1 and n < 5 or n == 9
    y[0] = 1.0 if a else x[0]
    y[1] = f32(n) if a else 2.0
""")
    found = names(module.k.trace("s"))
    assert found.count("if") == 1  # the load of x[0] stays conditional
    assert found.count("select") == 1
    assert {"and", "or"} <= set(found)


def test_kernels_in_nested_scopes_and_behind_decorators(load: Any, run: Any) -> None:
    module = load('''
def make(factor):
    @device
    def scale(x):
        return x * factor

    if True:
        @kernel(
            workgroup=lambda: (4, 1, 1),  # a lambda, (brackets)
            grid=lambda: (
                1, 1, 1),
        )
        def k(y: ReadWrite[i32]):
            """Multi
line docstring."""
            y[local_id(0)] = scale(y[local_id(0)])
    return k
two, five = make(2), make(5)
''')
    for kernel, factor in ((module.two, 2), (module.five, 5)):
        y = np.arange(4, dtype=np.int32)
        run(kernel, y)
        assert y.tolist() == [0, factor, 2 * factor, 3 * factor]
