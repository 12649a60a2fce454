"""What LLVM 22 gets wrong on AMD's processors is not what kernels are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.hsaco import emit, known, ones, settle
from gristmill.ir import interp
from gristmill.ir.core import Kernel, walk
from gristmill.ir.dtypes import DTYPES
from hsaco_tools import BASELINES, Emulated, compiled
from kernel_bodies import atomics_of_every_kind
from kernel_text import kernel

# ors with a half of all ones --------------------------------------------------------------------

# Of a value %a, computed from the scalars %1 (i64) and %2 (i32), a half is all ones; not of %b.
FILLED = {
    "a constant": "%20 = const 9223372036854775807 : i64\n%a = or %1, %20 : i64",
    "a negative one": "%20 = const -4294967296 : i64\n%a = or %1, %20 : i64",
    "its complement": """%20 = bitcast %2 : u32
        %21 = convert %20 : u64
        %22 = bitcast %21 : i64
        %23 = const -256 : i64
        %24 = not %22 : i64
        %a = and %24, %23 : i64""",
    "shifted": "%20 = const -2 : i64\n%21 = const 31 : i64\n%22 = or %1, %20 : i64\n"
    "%a = shl %22, %21 : i64",
    "a sum": """%20 = local_linear_id : i32
        %21 = convert %20 : u64
        %22 = bitcast %21 : i64
        %23 = const -4294967296 : i64
        %a = add %22, %23 : i64""",
    "a difference": """%20 = const 4294967295 : i64
        %21 = and %1, %20 : i64
        %22 = const -1 : i64
        %a = sub %22, %21 : i64""",
    "of two words": """%20 = const 4294967295 : u32
        %21 = bitcast %2 : u32
        %22 = vector %20, %21 : u32x2
        %a = bitcast %22 : i64""",
    "chosen": """%20 = const -4294967295 : i64
        %21 = const -4294967290 : i64
        %22 = const 3 : i32
        %23 = lt %2, %22 : bool
        %a = select %23, %20, %21 : i64""",
}


def joined(made: str, op: str = "or", half: int = 0) -> Kernel:
    """x[i] = (x[i] | half) | a where %2 is not 0, in another block than that of a."""
    body = f"""
    {made}
    %30 = local_linear_id : i32
    %31 = const 32 : i32
    %32 = add %30, %31 : i32
    store %0, %32, %a
    %37 = load %0, %30 : i64
    %38 = const {half} : i64
    %33 = or %37, %38 : i64
    %39 = add %32, %31 : i32
    store %0, %39, %33
    %34 = const 0 : i32
    %35 = ne %2, %34 : bool
    if %35 {{
      %36 = {op} %33, %a : i64
      store %0, %30, %36
      yield
    }} else {{
      yield
    }}
    return"""
    parameters = "x: i64 buffer readwrite, y: i64 scalar, n: i32 scalar"
    return kernel(parameters, body.replace("%a", "%29"))


@pytest.mark.parametrize("half", [0, 0xFFFFFFFF])
@pytest.mark.parametrize("name", FILLED)
def test_a_half_of_all_ones_stays(name: str, half: int, require: Callable[..., None]) -> None:
    """half: of the other operand, whose bits may be all ones as well."""
    require("llvm-objdump")
    k = joined(FILLED[name], half=half)
    before = np.arange(96, dtype=np.int64) * 12345678912345
    wanted = before.copy()
    interp.run(k, [wanted, 5, 1], (1, 1, 1))
    for arch in BASELINES:
        got = before.copy()
        Emulated(k, arch).run([got, 5, 1], (1, 1, 1), np.random.default_rng(0))
        np.testing.assert_array_equal(got, wanted, arch)


def test_other_ors_and_sums_are_left_to_llvm() -> None:
    assert ones.filled(joined("%a = not %1 : i64")) == {}
    assert ones.filled(joined("%20 = const 4294967294 : i64\n%a = or %1, %20 : i64")) == {}
    assert ones.filled(joined("%a = const -1 : i64")) == {}
    assert [*ones.filled(joined(FILLED["a constant"])).values()] == [(1,)]
    both = joined(FILLED["a negative one"], half=0xFFFFFFFF)
    assert [*ones.filled(both).values()] == [(0, 1)]
    assert [*ones.filled(joined(FILLED["a constant"], "add")).values()] == [(1,)]
    assert ones.filled(joined(FILLED["a constant"], "xor")) == {}


OPS = ("and", "or", "xor", "add", "sub", "mul", "min", "max", "floordiv", "mod", "shl", "shr")


@pytest.mark.parametrize("name", ["i32", "u32", "i64", "u64"])
def test_what_is_known_of_bits_holds(name: str) -> None:
    """Of all ops, on operands some of whose bits are the same in each of many runs."""
    dtype, rng = DTYPES[name], np.random.default_rng(1)
    storage = dtype.storage
    lines, results = [], []

    def value(text: str) -> str:
        lines.append(f"%{len(lines) + 10} = {text} : {name}")
        return f"%{len(lines) + 9}"

    def mask(ones: float) -> str:
        word = int(sum((rng.random() < ones) << n for n in range(dtype.bits)))
        top = int(rng.integers(0, dtype.bits))
        word = word | -1 << top if rng.random() < 0.5 else word & ~(-1 << top)
        word &= (1 << dtype.bits) - 1
        signed = dtype.is_signed and word >> dtype.bits - 1
        return value(f"const {word - (1 << dtype.bits) if signed else word}")

    for op in (*OPS, "not", "neg"):
        for _ in range(12):
            a, b = (
                value(f"or {value(f'and {v}, {mask(0.6)}')}, {mask(0.4)}") for v in ("%1", "%2")
            )
            if op in ("shl", "shr") and rng.random() < 0.5:
                b = value(f"const {int(rng.integers(0, dtype.bits))}")
            results.append(value(f"{op} {a}, {b}" if op in OPS else f"{op} {a}"))
    stores = []
    for n, result in enumerate(results):
        stores += [f"%{5000 + n} = const {n} : i32", f"store %0, %{5000 + n}, {result}"]
    k = kernel(
        f"x: {name} buffer readwrite, a: {name} scalar, b: {name} scalar",
        "\n".join([*lines, *stores, "return"]),
    )
    found: known.Known = {}
    for made in walk(k.body):
        known.note(found, made)
    masks = [found.get(int(r[1:]), ((0, 0),))[0] for r in results]
    assert sum(any(m) for m in masks) > len(masks) // 2
    zeros, ones = (np.array([m[n] for m in masks], np.uint64) for n in (0, 1))
    for _ in range(20):
        x = np.zeros(len(results), storage)
        a, b = (storage.type(v) for v in rng.integers(dtype.min, dtype.max, 2, storage, True))
        interp.run(k, [x, a, b], (1, 1, 1))
        bits = x.view(f"u{dtype.bytes}").astype(np.uint64)
        assert not (bits & zeros).any()
        assert ((bits & ones) == ones).all()


# dot products -----------------------------------------------------------------------------------


def dots(body: str) -> tuple[int, ...]:
    """Places among the dot products of those that are waited for where they are made."""
    parameters = "x: i32 buffer readwrite, a: i32 scalar, b: i32 scalar"
    k = kernel(parameters, f"%3 = const 0 : i32\n%4 = dot4 %1, %2, %3 : i32\n{body}\nreturn")
    made = [op.result.id for op in walk(k.body) if op.name == "dot4"]
    return tuple(made.index(v) for v in sorted(settle.leaving(k)))


BRANCH = "%8 = eq %1, %2 : bool\nif %8 {{\nstore %0, %3, {}\nyield\n}} else {{\nyield\n}}"


@pytest.mark.parametrize(
    ("body", "settled"),
    [
        ("store %0, %3, %4", ()),
        ("%5 = add %4, %1 : i32\nstore %0, %3, %5", ()),
        (BRANCH.format("%4"), (0,)),
        ("%5 = max %4, %1 : i32\n" + BRANCH.format("%5"), (0,)),
        ("%5 = max %4, %1 : i32\n%6 = add %5, %5 : i32\n" + BRANCH.format("%6"), (0,)),
        ("%5 = dot4 %1, %2, %4 : i32\n" + BRANCH.format("%5"), (1,)),
        ('%5 = atomic %0, %3, %4 {kind="max"} : i32', (0,)),
    ],
)
def test_sums_that_may_be_read_in_another_block_are_waited_for(
    body: str, settled: tuple[int, ...]
) -> None:
    assert dots(body) == settled


# atomics and products of 64 bits ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["i32", "u64"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"])
def test_whole_numbers_are_updated_by_one_instruction(
    arch: str, name: str, require: Callable[..., None]
) -> None:
    from amdgpu_emulator import CodeObject

    require("llvm-objdump")
    parameters, body = atomics_of_every_kind(DTYPES[name], "buffer")
    code = CodeObject.read(compiled(kernel(parameters, body), arch)[0])
    words = {i.mnemonic for i in code.instructions.values()}
    for kind in ("or", "and", "xor", "min", "max"):
        assert any("atomic" in w and kind in w for w in words), (kind, words)


@pytest.mark.parametrize("name", ["i64", "u64"])
def test_products_of_64_bits_are_made_of_words(name: str) -> None:
    k = kernel(
        f"x: {name} buffer readwrite",
        f"%1 = const 0 : i32\n%2 = load %0, %1 : {name}\n%3 = mul_high %2, %2 : {name}\n"
        "store %0, %1, %3\nreturn",
    )
    arch = emit.find_arch(k, "gfx1100")
    assert "i128" not in emit.write(emit.prepare(k, Options(), arch), arch)
