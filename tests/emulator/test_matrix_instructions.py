"""MFMA and WMMA as executed: which processor has which, registers, modifiers, refusals.

What a product gives is tested apart (test_matrix_layouts); here its registers and modifiers count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from amdgpu_emulator import EmulationError, UnknownInstruction, matrix, narrow
from amdgpu_emulator.matrix_layout import BITS, parse
from amdgpu_emulator.one_wave import execute

# Per processor: mnemonics, registers of D, of A and of B, as AMD's documents list them.
MFMA: dict[str, dict[str, tuple[int, int]]] = {
    "gfx908": {
        "v_mfma_f32_32x32x1f32": (32, 1),
        "v_mfma_f32_16x16x1f32": (16, 1),
        "v_mfma_f32_4x4x1f32": (4, 1),
        "v_mfma_f32_32x32x2f32": (16, 1),
        "v_mfma_f32_16x16x4f32": (4, 1),
        "v_mfma_f32_32x32x4f16": (32, 2),
        "v_mfma_f32_16x16x16f16": (4, 2),
        "v_mfma_f32_32x32x8f16": (16, 2),
        "v_mfma_f32_4x4x2bf16": (4, 1),
        "v_mfma_f32_32x32x4bf16": (16, 1),
        "v_mfma_f32_16x16x8bf16": (4, 1),
        "v_mfma_i32_32x32x8i8": (16, 1),
        "v_mfma_i32_16x16x16i8": (4, 1),
        "v_mfma_i32_4x4x4i8": (4, 1),
    },
    "gfx90a": {
        "v_mfma_f32_16x16x4f32": (4, 1),
        "v_mfma_f32_16x16x16f16": (4, 2),
        "v_mfma_f32_16x16x16bf16_1k": (4, 2),
        "v_mfma_f32_32x32x8bf16_1k": (16, 2),
        "v_mfma_f32_4x4x4bf16_1k": (4, 2),
        "v_mfma_f64_16x16x4f64": (8, 2),
        "v_mfma_f64_4x4x4f64": (2, 2),
        "v_mfma_i32_16x16x16i8": (4, 1),
    },
    "gfx942": {
        "v_mfma_f32_16x16x4_f32": (4, 1),
        "v_mfma_f32_32x32x2_f32": (16, 1),
        "v_mfma_f32_4x4x1_16b_f32": (4, 1),
        "v_mfma_f32_16x16x16_f16": (4, 2),
        "v_mfma_f32_16x16x16_bf16": (4, 2),
        "v_mfma_f32_32x32x8_bf16": (16, 2),
        "v_mfma_i32_16x16x32_i8": (4, 2),
        "v_mfma_i32_32x32x16_i8": (16, 2),
        "v_mfma_f64_16x16x4_f64": (8, 2),
        "v_mfma_f32_16x16x8_xf32": (4, 2),
        "v_mfma_f32_32x32x4_xf32": (16, 2),
        "v_mfma_f32_16x16x32_fp8_fp8": (4, 2),
        "v_mfma_f32_32x32x16_bf8_fp8": (16, 2),
    },
    "gfx950": {
        "v_mfma_f32_16x16x32_f16": (4, 4),
        "v_mfma_f32_32x32x16_bf16": (16, 4),
        "v_mfma_f32_16x16x16_f16": (4, 2),
        "v_mfma_i32_16x16x64_i8": (4, 4),
        "v_mfma_i32_32x32x32_i8": (16, 4),
        "v_mfma_f32_16x16x32_fp8_bf8": (4, 2),
        "v_mfma_f32_16x16x128_f8f6f4": (4, 8),
    },
}
CASES = [(p, name, *counts) for p, names in MFMA.items() for name, counts in names.items()]


@pytest.fixture(autouse=True)
def _tools(require: Callable[..., None]) -> None:
    require("llvm-mc")


def flavour(processor: str) -> matrix.Flavour:
    return matrix.Flavour(processor == "gfx942", processor == "gfx90a", processor == "gfx1201")


def words(kind: str, count: int, lanes: int, rng: np.random.Generator, fnuz: bool) -> np.ndarray:
    """uint32[count, lanes] of small whole numbers in a type."""
    bits = BITS[kind]
    number = rng.integers(-3, 4, (count * 32 // bits if bits < 64 else count // 2, lanes))
    if kind in ("f64", "f32", "xf32"):
        wide = number.astype(np.float64 if kind == "f64" else np.float32)
        return wide.view(np.uint32).reshape(len(wide), lanes, -1).swapaxes(1, 2).reshape(-1, lanes)
    if kind in ("fp8", "bf8"):
        code = narrow.encode8(number.astype(np.float32), narrow.float8(kind, fnuz), False)
    elif bits == 16:
        code = (narrow.to_f16 if kind == "f16" else narrow.to_bf16)(number.astype(np.float32))
    else:
        code = (number & ((1 << bits) - 1)).astype(np.uint32)
    parts = code.astype(np.uint32).reshape(count, 32 // bits, lanes)
    shifts = bits * np.arange(32 // bits, dtype=np.uint32)[None, :, None]
    return np.bitwise_or.reduce(parts << shifts, axis=1)


def span(kind: str, first: int, count: int) -> str:
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def result(m: object, first: int, count: int) -> np.ndarray:
    return np.stack([m.read(first + k) for k in range(count)], axis=1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("processor", "name", "out", "inputs"), CASES)
def test_products(processor: str, name: str, out: int, inputs: int) -> None:
    shape = parse(name)
    assert shape is not None
    rng = np.random.default_rng(11)
    fnuz = processor == "gfx942"
    a, b = words(shape.a, inputs, 64, rng, fnuz), words(shape.b, inputs, 64, rng, fnuz)
    c = words(shape.d, out, 64, rng, fnuz)
    home = "a" if processor == "gfx908" else "v"
    first = 16  # of C; D lies elsewhere
    registers = {span("v", 0, inputs): a, span("v", 8, inputs): b, span(home, first, out): c}
    text = f"{name} {span(home, 64, out)}, {span('v', 0, inputs)}, {span('v', 8, inputs)}, "
    m = execute(processor, text + span(home, first, out), registers, np.arange(64) < 7)
    base = 64 + (256 if home == "a" else 0)
    args = (a[None], b[None], c[None], flavour(processor), rng)
    np.testing.assert_array_equal(result(m, base, out), matrix.mfma(shape, *args))


@pytest.mark.parametrize("constant", ["0", "1.0", "-4.0"])
def test_constant_accumulators(constant: str) -> None:
    one = np.float32(1).view(np.uint32)
    m = execute("gfx942", f"v_mfma_f32_16x16x4_f32 v[4:7], v0, v1, {constant}",
                {"v0": np.full(64, one), "v1": np.full(64, one)})  # fmt: skip
    assert (result(m, 4, 4).view(np.float32) == 4 + float(constant)).all()


def test_constant_accumulators_of_f64() -> None:
    one = np.array([0, np.float64(1).view(np.uint64) >> 32])[:, None] * np.ones((1, 64), int)
    text = "v_mfma_f64_4x4x4_4b_f64 v[4:5], v[0:1], v[2:3], -2.0"
    m = execute("gfx942", text, {"v[0:1]": one, "v[2:3]": one})
    got = result(m, 4, 2).astype(np.uint64)
    assert ((got[:, 0] | got[:, 1] << 32).view(np.float64) == 2.0).all()


def test_modifiers_of_blocks_reach_the_product() -> None:
    shape = parse("v_mfma_f32_4x4x1f32")
    assert shape is not None
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 9, (1, 64)).astype(np.float32).view(np.uint32) for _ in range(2))
    text = "v_mfma_f32_4x4x1f32 v[4:7], v0, v1, 0 cbsz:3 abid:2 blgp:3"
    got = result(execute("gfx90a", text, {"v0": a, "v1": b}), 4, 4)
    zero = np.zeros((1, 4, 64), np.uint32)
    args = (a[None], b[None], zero, matrix.Flavour(), rng)
    np.testing.assert_array_equal(got, matrix.mfma(shape, *args, cbsz=3, abid=2, blgp=3))
    assert (got != matrix.mfma(shape, *args)).any()


def test_signs_of_f64_are_refused() -> None:
    text = "v_mfma_f64_16x16x4_f64 v[8:15], v[0:1], v[2:3], v[8:15] neg:[1,0,0]"
    with pytest.raises(UnknownInstruction, match="v_mfma_f64_16x16x4_f64"):
        execute("gfx942", text, {})


def test_what_is_not_modelled_is_refused() -> None:
    for processor, text in (
        ("gfx90a", "v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[8:15] blgp:1"),
        ("gfx908", "v_mfma_f32_16x16x4f32 a[0:3], v0, v1, a[0:3] cbsz:1"),
        ("gfx942", "v_smfmac_f32_16x16x32_f16 v[0:3], v[4:5], v[8:11], v12"),
        ("gfx950", "v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[8:13], v[16:23], v[0:3] cbsz:2"),
        ("gfx1201", "v_swmmac_f32_16x16x32_f16 v[0:7], v[8:11], v[12:19], v20"),
    ):
        with pytest.raises(UnknownInstruction, match=text.split()[0]):
            execute(processor, text, {})


def test_small_floats_by_modifier() -> None:
    shape = parse("v_mfma_f32_32x32x64_f8f6f4")
    assert shape is not None
    rng = np.random.default_rng(4)
    a, b = words("fp8", 8, 64, rng, False), words("bf8", 8, 64, rng, False)
    text = "v_mfma_f32_32x32x64_f8f6f4 v[16:31], v[0:7], v[8:15], 0 blgp:1"
    got = result(execute("gfx950", text, {"v[0:7]": a, "v[8:15]": b}), 16, 16)
    mixed = matrix.Shape("mfma", 32, 32, 64, 1, "fp8", "bf8", "f32")
    zero = np.zeros((1, 16, 64), np.uint32)
    wanted = matrix.mfma(mixed, a[None], b[None], zero, matrix.Flavour(), rng)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("processor", "kept"), [("gfx908", 1), ("gfx90a", 0), ("gfx942", 1)])
def test_denormals_of_halves(processor: str, kept: int) -> None:
    """MI200 takes denormal halves for zeros (AMD's documents on numerics); its kin do not."""
    registers = {"v[0:1]": np.full((2, 64), 0x00010001), "v[2:3]": np.full((2, 64), 0x3C003C00)}
    registers["a[0:3]"] = np.zeros((4, 64))
    m = execute(processor, "v_mfma_f32_4x4x4f16 a[0:3], v[0:1], v[2:3], a[0:3]", registers)
    assert (result(m, 256, 4).view(np.float32) == kept * 4 * 2.0**-24).all()


def test_xf32_keeps_ten_bits() -> None:
    """1 + 2^-11 is 1 or 1 + 2^-10, not itself; 1 + 2^-10 stays."""
    value = np.tile(np.array([1 + 2.0**-11, 1 + 2.0**-10], np.float32).view(np.uint32), 32)
    registers = {"v[0:1]": np.stack([value, value]), "v[2:3]": np.zeros((2, 64), np.uint32)}
    registers["v[2:3]"][0, :16] = np.float32(1).view(np.uint32)  # B: k = 0 only
    m = execute("gfx942", "v_mfma_f32_16x16x8_xf32 v[4:7], v[0:1], v[2:3], 0", registers)
    got = result(m, 4, 4).view(np.float32)[0]
    rows = 4 * (np.arange(64) // 16)[None] + np.arange(4)[:, None]
    assert (got[rows % 2 == 1] == 1 + 2.0**-10).all()
    assert set(got[rows % 2 == 0].tolist()) <= {1.0, 1 + 2.0**-10}


def test_accumulation_registers_move() -> None:
    lane = np.arange(64, dtype=np.uint32)
    text = "v_accvgpr_write_b32 a3, v0\nv_accvgpr_read_b32 v1, a3\nv_accvgpr_write_b32 a4, 1.0"
    m = execute("gfx908", text, {"v0": lane})
    np.testing.assert_array_equal(m.read(1)[0], lane)
    assert (m.read(256 + 4)[0].view(np.float32) == 1).all()
    m = execute("gfx90a", "v_accvgpr_mov_b32 a1, a0", {"a0": lane}, lane > 3)
    np.testing.assert_array_equal(m.read(256 + 1)[0, 4:], lane[4:])


WMMA = {
    "gfx1100": {
        "v_wmma_f32_16x16x16_f16": (8, 8),
        "v_wmma_f32_16x16x16_bf16": (8, 8),
        "v_wmma_f16_16x16x16_f16": (8, 8),
        "v_wmma_bf16_16x16x16_bf16": (8, 8),
        "v_wmma_i32_16x16x16_iu8": (8, 4),
        "v_wmma_i32_16x16x16_iu4": (8, 2),
    },
    "gfx1201": {
        "v_wmma_f32_16x16x16_f16": (8, 4),
        "v_wmma_f32_16x16x16_bf16": (8, 4),
        "v_wmma_f16_16x16x16_f16": (4, 4),
        "v_wmma_bf16_16x16x16_bf16": (4, 4),
        "v_wmma_i32_16x16x16_iu8": (8, 2),
        "v_wmma_i32_16x16x16_iu4": (8, 1),
        "v_wmma_i32_16x16x32_iu4": (8, 2),
        "v_wmma_f32_16x16x16_fp8_fp8": (8, 2),
        "v_wmma_f32_16x16x16_bf8_fp8": (8, 2),
    },
}


@pytest.mark.parametrize(
    ("processor", "name", "out", "inputs"),
    [(p, name, *counts) for p, names in WMMA.items() for name, counts in names.items()],
)
def test_wave_products(processor: str, name: str, out: int, inputs: int) -> None:
    shape = parse(name)
    assert shape is not None
    rng = np.random.default_rng(11)
    gfx12 = processor == "gfx1201"
    a, b = words(shape.a, inputs, 32, rng, False), words(shape.b, inputs, 32, rng, False)
    if not gfx12:
        a, b = np.tile(a[:, :16], 2), np.tile(b[:, :16], 2)
    c = words(shape.d, out, 32, rng, False)
    registers = {span("v", 0, inputs): a, span("v", 8, inputs): b, span("v", 16, out): c}
    old = rng.integers(0, 1 << 32, (out, 32), dtype=np.uint32)
    registers[span("v", 32, out)] = old
    whole = shape.d == "i32"
    text = f"{name} {span('v', 32, out)}, {span('v', 0, inputs)}, {span('v', 8, inputs)}, "
    text += span("v", 16, out) + (" neg_lo:[1,1,0]" if whole else "")
    m = execute(processor, text, registers)
    mods = matrix.Modifiers(neg_lo=(1, 1, 0) if whole else (0, 0, 0))
    args = (a[None], b[None], c[None], old[None], mods, flavour(processor), rng)
    np.testing.assert_array_equal(result(m, 32, out), matrix.wmma(shape, *args))


def test_modifiers_reach_the_wave_product() -> None:
    shape = parse("v_wmma_f16_16x16x16_f16")
    assert shape is not None
    rng = np.random.default_rng(1)
    a, b, c = (np.tile(words("f16", 8, 16, rng, False), 2) for _ in range(3))
    text = "v_wmma_f16_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23] op_sel:[0,0,1]"
    text += " neg_lo:[1,0,0] neg_hi:[0,1,0]"
    m = execute("gfx1100", text, {"v[0:7]": a, "v[8:15]": b, "v[16:23]": c})
    mods = matrix.Modifiers((1, 0, 0), (0, 1, 0), 1)
    args = (a[None], b[None], c[None], c[None], mods, matrix.Flavour(), rng)
    np.testing.assert_array_equal(result(m, 16, 8), matrix.wmma(shape, *args))


def test_wave_products_need_every_lane_and_both_halves() -> None:
    text = "v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]"
    zero = np.zeros((8, 32), np.uint32)
    with pytest.raises(EmulationError, match="inactive lanes"):
        execute("gfx1100", text, {"v[0:7]": zero, "v[8:15]": zero}, np.arange(32) < 31)
    other = zero.copy()
    other[2, 30] = 5
    with pytest.raises(EmulationError, match="A differs between lanes"):
        execute("gfx1100", text, {"v[0:7]": other, "v[8:15]": zero})
