"""Memory in all its forms: vectors, private arrays, narrow types, atomics, ids, bit casts."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.interp import InterpOptions, run
from gristmill.ir.text import parse_kernel


def kernel(params: str, body: str, workgroup: str = "8 1 1", extra: str = ""):
    names, types, header = [], [], []
    for n, (name, t, *kind) in enumerate(p.split() for p in params.strip().split("\n")):
        header.append(f"param {name}: {t} {' '.join(kind)}\n")
        access = "read" if kind[0] == "slot" else kind[-1]
        types.append(t if kind[0] == "scalar" else f"buffer<{t},{access}>")
        names.append(f"%{n}: {types[-1]}")
    head = f"kernel k test\n{''.join(header)}workgroup {workgroup}\nindex i32\n{extra}"
    return parse_kernel(f"{head}body({', '.join(names)}) {{\n{body}  return\n}}\n")


def test_bf16_is_stored_as_its_upper_bits_and_rounded_after_every_op() -> None:
    k = kernel(
        "x bf16 buffer read\ny bf16 buffer write",
        "  %3 = global_id {dim=0} : i32\n  %4 = load %0, %3 : bf16\n  %5 = mul %4, %4 : bf16\n"
        "  %6 = add %5, %4 : bf16\n  store %1, %3, %6\n",
    )
    x = np.arange(0x3F80, 0x3F88, dtype=np.uint16)
    y = np.zeros(8, np.uint16)
    assert run(k, [x, y], (1, 1, 1)).problems == ()

    def rounded(v: float) -> np.float32:
        word = int(np.float32(v).view(np.uint32))
        return np.uint32((word + 0x7FFF + ((word >> 16) & 1)) & 0xFFFF0000).view(np.float32)

    values = (x.astype(np.uint32) << 16).view(np.float32)
    expected = [rounded(rounded(v * v) + v).view(np.uint32) >> 16 for v in values]
    assert y.tolist() == expected


def test_vector_index_counts_whole_vectors() -> None:
    k = kernel(
        "x f32 buffer read\ny f32 buffer write",
        "  %3 = global_id {dim=0} : i32\n  %4 = load %0, %3 {lanes=4} : f32x4\n"
        "  %5 = shuffle %4, %4 {lanes=[3, 2, 1, 4]} : f32x4\n  store %1, %3, %5\n",
    )
    x = np.arange(32, dtype=np.float32)
    y = np.zeros(32, np.float32)
    run(k, [x, y], (1, 1, 1))
    assert y.reshape(8, 4).tolist() == x.reshape(8, 4)[:, [3, 2, 1, 0]].tolist()


def test_private_array_is_zero_at_first_and_private() -> None:
    k = kernel(
        "y i32 buffer write",
        '  %9 = alloc {name="p"} : private<i32,4>\n  %1 = global_id {dim=0} : i32\n'
        "  %2 = const 3 : i32\n  %3 = and %1, %2 : i32\n  store %9, %3, %1\n"
        "  %4 = const 2 : i32\n  %5 = load %9, %4 : i32\n  store %0, %1, %5\n",
    )
    y = np.zeros(16, np.int32)
    assert run(k, [y], (2, 1, 1)).problems == ()
    assert y.tolist() == [i if i % 4 == 2 else 0 for i in range(16)]


def test_slot_is_a_buffer_of_one_element() -> None:
    k = kernel(
        "s f32 slot\ny f32 buffer write",
        "  %2 = const 0 : i32\n  %3 = load %0, %2 : f32\n  %4 = global_id {dim=0} : i32\n"
        "  store %1, %4, %3\n",
    )
    y = np.zeros(8, np.float32)
    run(k, [np.array([2.5], np.float32), y], (1, 1, 1))
    assert y.tolist() == [2.5] * 8


@pytest.mark.parametrize("lanes", [1, 1 << 16])
def test_ids_in_three_dimensions(lanes: int) -> None:
    names = [(n, d) for n in ("global_id", "local_id", "group_id", "num_groups") for d in range(3)]
    lines = [
        f"  %{100 + n} = {name} {{dim={d}}} : i32\n  store %{n}, %99, %{100 + n}\n"
        for n, (name, d) in enumerate(names)
    ]
    linear = (
        "  %90 = group_id {dim=0} : i32\n  %91 = group_id {dim=1} : i32\n"
        "  %92 = group_id {dim=2} : i32\n  %93 = const 3 : i32\n  %94 = const 2 : i32\n"
        "  %95 = mul %92, %94 : i32\n  %96 = add %91, %95 : i32\n  %97 = mul %96, %93 : i32\n"
        "  %98 = add %90, %97 : i32\n  %89 = const 24 : i32\n  %88 = mul %98, %89 : i32\n"
        "  %87 = local_linear_id : i32\n  %99 = add %88, %87 : i32\n"
    )
    params = "\n".join(f"b{n} i32 buffer write" for n in range(12))
    k = kernel(params, linear + "".join(lines), "4 3 2")
    grid, size = (3, 2, 2), (4, 3, 2)
    out = [np.zeros(12 * 24, np.int32) for _ in names]
    assert run(k, out, grid, options=InterpOptions(lanes=lanes)).problems == ()
    at = 0
    for g in np.ndindex(*grid[::-1]):
        for p in np.ndindex(*size[::-1]):
            group, place = g[::-1], p[::-1]
            whole = tuple(a * s + b for a, s, b in zip(group, size, place, strict=True))
            assert tuple(int(o[at]) for o in out) == (*whole, *place, *group, *grid)
            at += 1


def test_bitcast_between_vectors_and_scalars_puts_lane_0_lowest() -> None:
    k = kernel(
        "x u32 buffer read\ny u64 buffer write\nz u8 buffer write",
        "  %3 = global_id {dim=0} : i32\n  %4 = load %0, %3 {lanes=2} : u32x2\n"
        "  %5 = bitcast %4 : u64\n  store %1, %3, %5\n  %6 = bitcast %5 : u8x8\n"
        "  store %2, %3, %6\n",
    )
    x = np.arange(16, dtype=np.uint32) * 0x01020305
    y, z = np.zeros(8, np.uint64), np.zeros(64, np.uint8)
    run(k, [x, y, z], (1, 1, 1))
    assert y.tolist() == x.view(np.uint64).tolist()
    assert z.tolist() == x.view(np.uint8).tolist()


ATOMIC = (
    "  %3 = global_id {{dim=0}} : i32\n  %4 = load %0, %3 : {t}\n  %5 = const {cells} : i32\n"
    '  %6 = mod %3, %5 : i32\n  %7 = atomic %1, %6, %4 {{kind="{kind}"}} : {t}\n{use}'
)


def reference(kind: str, old, value):
    if kind == "exchange":
        return value
    with np.errstate(over="ignore"):
        return {
            "add": np.add,
            "min": np.fmin,
            "max": np.fmax,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[kind](old, value)


@pytest.mark.parametrize("cells", [1, 3, 40])
@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize(
    ("t", "kind"),
    [
        *((t, k) for t in ("i32", "u64") for k in ("add", "min", "max", "and", "or", "xor")),
        *((t, k) for t in ("f32", "f64") for k in ("add", "min", "max", "exchange")),
        ("i64", "exchange"),
    ],
)
def test_atomics_happen_one_after_the_other(
    t: str, kind: str, used: bool, cells: int, rng: np.random.Generator
) -> None:
    use = "  store %2, %3, %7\n" if used else ""
    params = f"x {t} buffer read\nm {t} buffer readwrite\ny {t} buffer write"
    k = kernel(params, ATOMIC.format(t=t, kind=kind, cells=cells, use=use))
    dtype = k.params[0].dtype.storage
    if dtype.kind == "f":
        x = rng.standard_normal(64).astype(dtype)
        x[rng.integers(64)] = np.nan
    else:
        x = rng.integers(0, 256, (64, dtype.itemsize), dtype=np.uint8).view(dtype)[:, 0].copy()
    memory, seen = x[:cells].copy(), np.zeros(64, dtype)
    expected, olds = memory.copy(), np.zeros(64, dtype)
    for n in range(64):
        olds[n] = expected[n % cells]
        expected[n % cells] = reference(kind, expected[n % cells], x[n])
    report = run(
        k, [x, memory, seen], (8, 1, 1), options=InterpOptions(lanes=int(rng.integers(99)))
    )
    assert report.problems == ()
    np.testing.assert_array_equal(memory, expected)
    if used:
        np.testing.assert_array_equal(seen, olds)


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("cells", [1, 3, 40])
def test_a_signaling_nan_loses_against_every_number(kind: str, used: bool, cells: int) -> None:
    use = "  store %2, %3, %7\n" if used else ""
    params = "x f32 buffer read\nm f32 buffer readwrite\ny f32 buffer write"
    k = kernel(params, ATOMIC.format(t="f32", kind=kind, cells=cells, use=use))
    signaling = np.array([0x7F800001], np.uint32).view(np.float32)
    x = np.repeat(signaling, 64)
    x[cells : 2 * cells] = 3.0
    memory, seen = np.repeat(signaling, cells), np.zeros(64, np.float32)
    run(k, [x, memory, seen], (8, 1, 1))
    assert memory[: 64 - cells].tolist() == [3.0] * min(cells, 64 - cells)


@pytest.mark.parametrize("cells", [1, 20])
def test_compare_exchange_lets_the_first_win_and_compares_bits(cells: int) -> None:
    k = kernel(
        "m f32 buffer readwrite\ny f32 buffer write",
        f"  %3 = global_id {{dim=0}} : i32\n  %4 = const {cells} : i32\n  %5 = mod %3, %4 : i32\n"
        "  %6 = const 0.0 : f32\n  %7 = convert %3 : f32\n"
        "  %8 = compare_exchange %0, %5, %6, %7 : f32\n  store %1, %3, %8\n",
    )
    memory, seen = np.zeros(20, np.float32), np.zeros(40, np.float32)
    memory[5] = -0.0  # equal, but other bits
    run(k, [memory, seen], (5, 1, 1))
    if cells == 20:
        # invocation 0 writes 0.0, so invocation 20 wins cell 0
        expected = [20.0, 1.0, 2.0, 3.0, 4.0, -0.0, *map(float, range(6, 20))]
        assert memory.tolist() == expected
        assert np.signbit(memory[5])
        assert seen.tolist() == [0.0] * 20 + [0.0, *expected[1:]]
    else:
        assert memory[0] == 1.0
        assert seen.tolist() == [0.0, 0.0] + [1.0] * 38


def test_last_invocation_wins_where_several_store() -> None:
    k = kernel(
        "y i32 buffer write",
        "  %1 = const 0 : i32\n  %2 = global_id {dim=0} : i32\n  store %0, %1, %2\n",
    )
    y = np.zeros(1, np.int32)
    run(k, [y], (3, 1, 1))
    assert y.tolist() == [23]


def test_one_cell_loaded_by_all_is_loaded_once_per_workgroup_array() -> None:
    k = kernel(
        "y i32 buffer write",
        '  %9 = alloc {name="t"} : workgroup<i32,1>\n  %1 = const 0 : i32\n'
        "  %2 = local_linear_id : i32\n  %3 = eq %2, %1 : bool\n  %4 = group_id {dim=0} : i32\n"
        "  if %3 {\n    store %9, %1, %4\n    yield\n  } else {\n    yield\n  }\n  barrier\n"
        "  %5 = load %9, %1 : i32\n  %6 = global_id {dim=0} : i32\n  store %0, %6, %5\n",
    )
    y = np.zeros(24, np.int32)
    assert run(k, [y], (3, 1, 1)).problems == ()
    assert y.tolist() == [0] * 8 + [1] * 8 + [2] * 8
