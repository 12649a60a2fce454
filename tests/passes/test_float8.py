"""8-bit floats: the tables against another implementation, and their lowering to integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gristmill.ir import float8, interp
from gristmill.ir.builder import Builder
from gristmill.ir.core import Kernel, Param, Region
from gristmill.ir.dtypes import (
    COMPUTED,
    DTYPES,
    Access,
    DType,
    MemType,
    Space,
    element_of,
    f16,
    i32,
    u8,
    u32,
    with_element,
)
from gristmill.ir.interface import bits_float, const_bits
from gristmill.ir.ops import ROWS, infer
from gristmill.ir.ops.table import OpTypeError
from gristmill.ir.passes.effects import op_names, value_types
from gristmill.ir.passes.float8 import Float8
from gristmill.ir.passes.fragments_nv import NvFragments, _NvLowering
from gristmill.ir.passes.pipeline import standard
from gristmill.ir.passes.support import ALL, Support
from pass_check import same
from pass_kernels import elementwise, patterns

NAMES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
EVERY = np.arange(256, dtype=np.uint8)


def boundaries(name: str, kind: type) -> np.ndarray:
    """Each value, each middle between two, and the neighbours of these in another type."""
    values = EVERY.view(NAMES[name]).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    top = values[-1] + (values[-1] - values[-2])
    line = np.array([*values, top])
    marks = np.concatenate([line, (line[1:] + line[:-1]) / 2, [np.inf, np.finfo(kind).max]])
    with np.errstate(over="ignore"):
        marks = np.concatenate([marks, -marks]).astype(kind)
        near = [np.nextafter(marks, kind(side)) for side in (np.inf, -np.inf)]
    return np.concatenate([marks, *near, np.array([np.nan, -np.nan, 0.0, -0.0], kind)])


def alike(got: np.ndarray, want: np.ndarray, name: str) -> None:
    """The same patterns; any NaN for a NaN."""
    nan = np.isnan(want.view(NAMES[name]).astype(np.float32))
    assert (np.isnan(got.view(NAMES[name]).astype(np.float32)) == nan).all()
    np.testing.assert_array_equal(got[~nan], want[~nan])


def elsewhere(values: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(NAMES[name]).view(np.uint8)


def nearest(values: np.ndarray, name: str) -> np.ndarray:
    """By distance to each value, for the other implementation takes f64 through f32."""
    halves = EVERY[:128].view(NAMES[name]).astype(np.float64)
    line = halves[np.isfinite(halves)]
    line = np.append(line, 2 * line[-1] - line[-2])  # what overflows
    away = np.abs(np.minimum(np.abs(values), line[-1])[:, None] - line)
    tied = away == away.min(axis=1, keepdims=True)
    even = tied & (np.arange(len(line)) % 2 == 0)
    code = np.where(even.any(1), even.argmax(1), tied.argmax(1)) | np.where(
        np.signbit(values), 0x80, 0
    )
    return np.where(np.isnan(values), elsewhere(np.array([np.nan]), name), code).astype(np.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_has_its_value(name: str) -> None:
    want = EVERY.view(NAMES[name]).astype(np.float32)
    np.testing.assert_array_equal(float8.decode(EVERY, name), want)
    assert (np.signbit(float8.decode(EVERY, name)) == np.signbit(want)).all()
    np.testing.assert_array_equal([bits_float(n, DTYPES[name]) for n in range(256)], want)
    np.testing.assert_array_equal(float8.encode(float8.decode(EVERY, name), name), EVERY)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_boundary_rounds_as_elsewhere(name: str, kind: type) -> None:
    values = boundaries(name, kind)
    if kind is np.float16:
        values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    want = nearest(values, name) if kind is np.float64 else elsewhere(values, name)
    alike(float8.rounded(values, name), want, name)
    numbers = [const_bits(float(v), DTYPES[name]) for v in values]
    alike(np.array(numbers, np.uint8), want, name)


WIDE = frozenset(["bool", "i32", "u32", "f32"])
MOVES = {"select", "convert", "bitcast", "splat", "vector", "extract", "insert", "shuffle"}


def conversion(source: DType, target: DType, lanes: int) -> Kernel:
    def build(b, v):
        return b.emit("convert", v, type=with_element(v.type, target))

    return elementwise(build, [source], target, lanes)


def inputs(source: DType, name: str, rng: np.random.Generator) -> np.ndarray:
    """Values that reach every boundary of a format, in memory form."""
    if not source.computes:
        return EVERY.copy()
    values = patterns(source, rng, 600)
    if source.name in ("f32", "f64"):
        values = np.concatenate([values, boundaries(name, source.storage.type)])
    if source.bits == 16 and source.is_float:
        values = np.arange(1 << 16, dtype=np.uint16).view(source.storage)
    return values[: len(values) // 4 * 4]


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("other", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_lowered_conversions_keep_their_value(name: str, other: str, lanes: int, rng) -> None:
    for source, target in ((name, other), (other, name)):
        if source == target:
            continue
        x = inputs(DTYPES[source], name, rng)
        kernel = conversion(DTYPES[source], DTYPES[target], lanes)
        out = np.zeros(len(x), DTYPES[target].storage)
        for native in (False, True):
            after = same(kernel, [Float8(native)], [x, out], (len(x) // lanes, 1, 1))
            assert all(element_of(t).computes for t in value_types(after))
            assert native == any(n.endswith("pack_f8") for n in op_names(after))


@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_pairs_of_halves_have_the_values_of_patterns(name: str, lanes: int) -> None:
    kernel = conversion(DTYPES[name], f16, lanes)
    out = np.zeros(256, np.float16)
    same(kernel, [Float8(pairs=True)], [EVERY.copy(), out], (256 // lanes, 1, 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_target_with_little_converts_alike(name: str, rng) -> None:
    bare = Support(WIDE, WIDE - {"bool"}, frozenset(), max_lanes=4, subgroup_vectors=False)
    for source, target in ((name, "f32"), ("f32", name), ("bf16", name), (name, "f16")):
        x = inputs(DTYPES[source], name, rng)[:4096]
        kernel = conversion(DTYPES[source], DTYPES[target], 4)
        out = np.zeros(len(x), DTYPES[target].storage)
        same(kernel, standard(bare), [x, out], (len(x) // 4, 1, 1))


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_becomes_a_half(name: str) -> None:
    """As products before sm_89 take them: four patterns of a word as two words of f16."""
    b = Builder()
    memory = [
        b.value(MemType(Space.BUFFER, u32, None, access)) for access in (Access.READ, Access.WRITE)
    ]
    params = (Param("x", "buffer", u32, Access.READ), Param("y", "buffer", u32, Access.WRITE))
    lowering = _NvLowering(Kernel("k", "t", (), (1, 1, 1), i32, Region()), NvFragments())
    lowering.b = b
    i = b.emit("global_id", type=i32, dim=0)
    (pair,) = lowering.widened([b.emit("load", memory[0], i)], DTYPES[name])
    b.do("store", memory[1], i, b.emit("vector", *pair))
    b.do("return")
    kernel = Kernel("k", "t", params, (1, 1, 1), i32, Region(tuple(memory), tuple(b.ops)))
    y = np.zeros(128, np.uint32)
    assert interp.run(kernel, [EVERY.view(np.uint32), y], (64, 1, 1)).problems == ()
    np.testing.assert_array_equal(y.view(np.float16), EVERY.view(NAMES[name]).astype(np.float16))


@pytest.mark.parametrize("name", NAMES)
def test_moves_keep_every_bit(name: str) -> None:
    t = DTYPES[name]

    def build(b, v):
        whole = b.emit("bitcast", v, type=with_element(v.type, u8))
        again = b.emit("bitcast", whole, type=v.type)
        turned = b.op("shuffle", (again, v), {"lanes": (3, 2, 5, 4)}).result
        return b.emit("insert", turned, b.emit("extract", v, lane=1), lane=0)

    out = np.zeros(256, np.uint8)
    same(elementwise(build, [t], t, 4), [Float8()], [EVERY, out], (64, 1, 1))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_computes_with_them(name: str) -> None:
    t = DTYPES[name]
    for op, row in ROWS.items():
        if row.meaning is not None and op not in MOVES:
            with pytest.raises(OpTypeError):
                infer(op, (t,) * row.arity, {})
    with pytest.raises(OpTypeError, match=r"as in f32\(x\)"):
        infer("add", (t, t), {})
    with pytest.raises(OpTypeError, match="compute in another type"):
        infer("subgroup_reduce", (t,), {"kind": "max"})
    assert t.name in ALL
    assert t.name not in COMPUTED
