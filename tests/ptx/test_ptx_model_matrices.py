"""Products of matrices, `ldmatrix` and asynchronous copies of the model do what NVIDIA's do.

Layouts are written here as PTX's documents draw them, element by element.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.llvm.toolchain import emit_assembly
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import prepare, write
from ptx_model.host import Model, ModelError
from ptx_tools import pool
from warp_texts import LANES, bulk, copies, ldmatrix, mma, one_warp, stmatrix

# Intrinsic, LLVM type of a register of A and B, registers of both, K, element, accumulator.
FLOATS = [
    ("m16n8k8.row.col.f32.f32", "<2 x half>", 3, 8, "f16"),
    ("m16n8k16.row.col.f32.f32", "<2 x half>", 6, 16, "f16"),
    ("m16n8k8.row.col.bf16", "i32", 3, 8, "bf16"),
    ("m16n8k16.row.col.bf16", "i32", 6, 16, "bf16"),
    ("m16n8k4.row.col.tf32", "i32", 3, 4, "tf32"),
    ("m16n8k8.row.col.tf32", "i32", 6, 8, "tf32"),
]
# With 8 rows of A and C.
LOW = [(f"m8n8k16.row.col.{kinds}", kinds) for kinds in ("s8", "u8", "s8.u8", "u8.s8")]
WHOLE = [
    (f"m16n8k{k}.row.col.{kinds}", "i32", count, k, kinds)
    for k, count in ((16, 3), (32, 6))
    for kinds in ("s8", "u8", "s8.u8", "u8.s8")
]


@pytest.fixture(autouse=True)
def gcc(require: Callable[..., None]) -> None:
    require("gcc")


def stored(values: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in the form of an operand, and what that form holds."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16), values.astype(np.float16)
    words = values.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        high = (words >> 16).astype(np.uint16)
        return high, (high.astype(np.uint32) << 16).view(np.float32)
    words = words & np.uint32(0xFFFFE000) if kind == "tf32" else words
    return words, words.view(np.float32)


def registers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A (16 or 8 x K) and B (K x 8) as the registers of each lane, (registers, 32)."""
    wide = 4 // a.itemsize
    rows = []
    for part in range(a.shape[1] // (4 * wide)):
        for low in range(0, a.shape[0], 8):
            rows.append([(low + n // 4, part * 4 * wide + n % 4 * wide) for n in range(LANES)])
    found = [[a[r, k : k + wide].copy().view(np.uint32)[0] for r, k in row] for row in rows]
    for part in range(b.shape[0] // (4 * wide)):
        begin = part * 4 * wide
        found.append(
            [
                b[begin + n % 4 * wide : begin + n % 4 * wide + wide, n // 4]
                .copy()
                .view(np.uint32)[0]
                for n in range(LANES)
            ]
        )
    return np.array(found, np.uint32)


def accumulators(c: np.ndarray) -> np.ndarray:
    """C (16 or 8 x 8) as its elements of each lane."""
    count = c.shape[0] // 4
    places = [
        [(n // 4 + 8 * (i // 2), n % 4 * 2 + i % 2) for n in range(LANES)] for i in range(count)
    ]
    return np.array([[c[r, k] for r, k in row] for row in places])


def product_of(
    row: tuple[str, str, int, int, str], accumulator: str, x: np.ndarray, seed: int
) -> np.ndarray:
    name, operand, count, _, _ = row
    y = np.zeros(4 * LANES, np.int32)
    model = Model(one_warp(), edit=mma(name, operand, count, accumulator))
    model.run([x.view(np.int32).reshape(-1), y], (1, 1, 1), seed=seed)
    return y.reshape(4, LANES)


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row[0])
def test_products_of_floats(row: tuple, rng: np.random.Generator) -> None:
    _, _, _, depth, kind = row
    a, a_value = stored(rng.standard_normal((16, depth)), kind)
    b, b_value = stored(rng.standard_normal((depth, 8)), kind)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    x = np.concatenate([registers(a, b), accumulators(c).view(np.uint32)])
    got = product_of(row, "float", x, int(rng.integers(1 << 32))).view(np.float32)
    a64, b64 = a_value.astype(np.float64), b_value.astype(np.float64)
    wanted = accumulators(a64 @ b64 + c)
    bound = accumulators(np.abs(a64) @ np.abs(b64) + np.abs(c)) * (depth + 1) * 2.0**-23
    assert (np.abs(got - wanted) <= bound).all()
    assert (got != 0).all()


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row[0])
def test_products_of_integers(row: tuple, rng: np.random.Generator) -> None:
    _, _, _, depth, kinds = row
    signs = (kinds.split(".") * 2)[:2]
    types = [np.int8 if s == "s8" else np.uint8 for s in signs]
    a = rng.integers(0, 256, (16, depth), np.uint8).view(types[0])
    b = rng.integers(0, 256, (depth, 8), np.uint8).view(types[1])
    c = rng.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    x = np.concatenate([registers(a, b), accumulators(c).view(np.uint32)])
    got = product_of(row, "i32", x, int(rng.integers(1 << 32)))
    wanted = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)  # wraps
    assert np.array_equal(got, accumulators(wanted))


@pytest.mark.parametrize(("name", "kinds"), LOW)
def test_products_of_8_rows(name: str, kinds: str, rng: np.random.Generator) -> None:
    types = [np.int8 if s == "s8" else np.uint8 for s in (kinds.split(".") * 2)[:2]]
    a = rng.integers(0, 256, (8, 16), np.uint8).view(types[0])
    b = rng.integers(0, 256, (16, 8), np.uint8).view(types[1])
    c = rng.integers(-(2**31), 2**31, (8, 8)).astype(np.int32)
    x = np.concatenate([registers(a, b), accumulators(c).view(np.uint32)]).view(np.int32)
    y = np.zeros(2 * LANES, np.int32)
    Model(one_warp(), edit=mma(name, "i32", 2, "i32", 2)).run([x.reshape(-1), y], (1, 1, 1))
    wanted = (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
    assert np.array_equal(y.reshape(2, LANES), accumulators(wanted))


@pytest.mark.parametrize("depth", [8, 16])
def test_sums_in_f16(depth: int, rng: np.random.Generator) -> None:
    a, b, c = (
        rng.standard_normal(s).astype(np.float16) for s in ((16, depth), (depth, 8), (16, 8))
    )
    pairs = accumulators(c).reshape(2, 2, LANES).transpose(0, 2, 1)
    words = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
    x = np.concatenate([registers(a, b), words]).view(np.int32)
    y, half = np.zeros(2 * LANES, np.int32), "<2 x half>"
    edit = mma(f"m16n8k{depth}.row.col.f16.f16", half, 3 * depth // 8, half, 2)
    Model(one_warp(), edit=edit).run([x.reshape(-1), y], (1, 1, 1))
    got = y.view(np.float16).reshape(2, LANES, 2).transpose(0, 2, 1).reshape(4, LANES)
    wide = [v.astype(np.float64) for v in (a, b, c)]
    bound = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(wide[2])
    error = np.abs(got - accumulators(wide[0] @ wide[1] + wide[2]))
    assert (error <= accumulators(bound) * (depth + 1) * 2.0**-10).all()


def eight_bit_floats(kind: str) -> np.ndarray:
    """The values of all 256 patterns."""
    found = []
    exponent_bits, bias = (4, 7) if kind == "e4m3" else (5, 15)
    fraction_bits = 7 - exponent_bits
    for bits in range(256):
        exponent, fraction = (
            bits >> fraction_bits & (1 << exponent_bits) - 1,
            bits % 2**fraction_bits,
        )
        power = 2.0 ** (max(exponent, 1) - bias)
        value = power * (min(exponent, 1) + fraction / 2**fraction_bits)
        if kind == "e5m2" and exponent == 31:
            value = np.nan if fraction else np.inf
        if kind == "e4m3" and bits & 0x7F == 0x7F:
            value = np.nan
        found.append(-value if bits & 0x80 else value)
    return np.array(found)


@pytest.mark.parametrize("of_b", ["e4m3", "e5m2"])
@pytest.mark.parametrize("of_a", ["e4m3", "e5m2"])
def test_products_of_8_bit_floats(of_a: str, of_b: str, rng: np.random.Generator) -> None:
    name = f"m16n8k32.row.col.f32.{of_a}.{of_b}.f32"
    values = [eight_bit_floats(kind) for kind in (of_a, of_b)]
    fine = [np.flatnonzero(np.isfinite(v)).astype(np.uint8) for v in values]
    a, b = rng.choice(fine[0], (16, 32)), rng.choice(fine[1], (32, 8))
    c = rng.standard_normal((16, 8)).astype(np.float32)
    x = np.concatenate([registers(a, b), accumulators(c).view(np.uint32)])
    got = product_of((name, "i32", 6, 32, ""), "float", x, 1).view(np.float32)
    a64, b64 = values[0][a], values[1][b]
    bound = accumulators(np.abs(a64) @ np.abs(b64) + np.abs(c)) * 33 * 2.0**-23
    assert (np.abs(got - accumulators(a64 @ b64 + c)) <= bound).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_gives_each_lane_its_elements(
    count: int, transposed: bool, rng: np.random.Generator
) -> None:
    tile = rng.integers(0, 1 << 32, 512, np.uint64).astype(np.uint32)
    rows = rng.permutation(128)[:LANES].astype(np.uint32)
    y = np.zeros(4 * LANES, np.int32)
    x = np.concatenate([tile, rows]).view(np.int32)
    Model(one_warp(), edit=ldmatrix(count, transposed)).run([x, y], (1, 1, 1))
    got = y.view(np.uint16).reshape(4, LANES, 2)
    halves = tile.view(np.uint16).reshape(128, 8)
    for m in range(count):
        matrix = halves[rows[8 * m : 8 * m + 8]]
        matrix = matrix.T if transposed else matrix
        assert np.array_equal(got[m].reshape(8, 8), matrix)


def copied(edit: Callable[[str], str], x: np.ndarray, seed: int) -> np.ndarray:
    """By copy and lane, the four words."""
    y = np.zeros(8 * LANES, np.int32)
    Model(one_warp(), edit=edit).run([x, y], (1, 1, 1), seed=seed)
    return y.reshape(2, 4, LANES).transpose(0, 2, 1).reshape(2, -1)


def test_asynchronous_copies_come_with_the_wait_and_not_before(rng: np.random.Generator) -> None:
    x = rng.integers(0, 1 << 31, 256).astype(np.int32)
    for seed in range(5):
        assert np.array_equal(copied(copies(early=False), x, seed).reshape(-1), x)
        assert not (copied(copies(early=True), x, seed).reshape(-1) == x).any()
        first, second = copied(copies(early=False, left=1), x, seed)
        assert np.array_equal(first, x[:128])
        assert not (second == x[128:]).any()


def test_the_rest_of_a_copy_that_is_given_less_is_zero(rng: np.random.Generator) -> None:
    x = rng.integers(1, 1 << 31, 256).astype(np.int32)
    for given in (0, 4, 12):
        _, second = copied(copies(early=False, given=given), x, 1)
        wanted = x[128:].reshape(LANES, 4) * (np.arange(4) < given // 4)
        assert np.array_equal(second.reshape(LANES, 4), wanted)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_is_the_reverse_of_ldmatrix(
    count: int, transposed: bool, rng: np.random.Generator
) -> None:
    x = rng.integers(0, 1 << 31, count * LANES).astype(np.int32)
    y = np.zeros(count * LANES, np.int32)
    Model(one_warp(), edit=stmatrix(count, transposed)).run([x, y], (1, 1, 1))
    given, got = (z.view(np.uint16).reshape(count, 8, 8) for z in (x, y))
    assert np.array_equal(got, given.transpose(0, 2, 1) if transposed else given)


def test_a_bulk_copy_is_there_when_its_barrier_says_so(rng: np.random.Generator) -> None:
    x = rng.integers(0, 1 << 31, LANES).astype(np.int32)
    for seed in range(5):
        y, early = np.zeros((2, LANES), np.int32)
        Model(one_warp(), edit=bulk()).run([x, y], (1, 1, 1), seed=seed)
        assert np.array_equal(y, x)
        Model(one_warp(), edit=bulk(waits=False)).run([x, early], (1, 1, 1), seed=seed)
        assert not (early == x).any()


def test_a_phase_that_never_ends_is_found() -> None:
    """More bytes are announced than come."""
    x, y = np.zeros((2, LANES), np.int32)
    with pytest.raises(ModelError, match="is stuck"):
        Model(one_warp(), edit=bulk(announced=144)).run([x, y], (1, 1, 1))


def test_a_wait_for_the_phase_before_waits_for_nothing() -> None:
    x, y = np.arange(2 * LANES, dtype=np.int32).reshape(2, LANES)
    Model(one_warp(), edit=bulk(parity=1)).run([x, y], (1, 1, 1))
    assert not (y == x).any()


CODE = {
    **{row[0]: (mma(row[0], row[1], row[2], "float"), "sm_80") for row in FLOATS},
    **{row[0]: (mma(row[0], row[1], row[2], "i32"), "sm_80") for row in WHOLE},
    **{name: (mma(name, "i32", 2, "i32", 2), "sm_80") for name, _ in LOW},
    "sums in f16": (mma("m16n8k8.row.col.f16.f16", "<2 x half>", 3, "<2 x half>", 2), "sm_80"),
    "fp8": (mma("m16n8k32.row.col.f32.e4m3.e5m2.f32", "i32", 6, "float"), "sm_100"),
    **{f"ldmatrix.x{n}": (ldmatrix(n, n == 2), "sm_80") for n in (1, 2, 4)},
    **{f"stmatrix.x{n}": (stmatrix(n, n == 2), "sm_90") for n in (1, 2, 4)},
    "cp.async": (copies(early=False), "sm_80"),
    "bulk": (bulk(), "sm_100"),
}


@pytest.mark.parametrize("name", CODE)
def test_the_model_is_called_as_llvm_declares_its_intrinsics(name: str) -> None:
    """LLVM takes an intrinsic that it does not know for a function of another module."""
    edit, arch = CODE[name]
    k = prepare(one_warp(), Options())
    function = f"{emit_assembly.__module__}:{emit_assembly.__name__}"
    text = pool().run(function, edit(write(k, ARCHS[arch])), ARCHS[arch].machine())
    assert ".extern" not in text
    assert "call" not in text
