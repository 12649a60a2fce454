"""Float code that LLVM makes for gfx11, gfx12 and gfx9, bit for bit against exact oracles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from emulator_tools import Case, check_all, compile_ir, inputs, module, run_case, same

Array = np.ndarray[Any, Any]
TARGETS = [("gfx1100", None), ("gfx1201", None), ("gfx1100", 64), ("gfx942", None)]
DTYPES = {"half": np.float16, "float": np.float32, "double": np.float64}


def _number(x: Array, y: Array, smaller: bool) -> Array:
    """minimumNumber or maximumNumber with -0 below +0."""
    f = np.fmin if smaller else np.fmax
    signs = np.signbit(x) | np.signbit(y) if smaller else np.signbit(x) & np.signbit(y)
    zero = np.where(signs, -0.0, 0.0).astype(x.dtype)
    return np.where((x == 0) & (y == 0), zero, f(x, y))


def _ieee(x: Array, y: Array, smaller: bool) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), np.nan, _number(x, y, smaller))


def _saturating(low: int, high: int, dtype: Any) -> Any:
    def f(x: Array) -> Array:
        found = []
        for v in x.astype(np.float64):
            if np.isnan(v):
                found.append(0)
            else:
                found.append(low if v <= low else high if v >= high else int(v))
        return np.array(found, dtype)

    return f


def _fraction_to_float(value: Fraction, dtype: Any) -> Any:
    """The nearest float, ties to even, of an exact value that is not zero."""
    info = np.finfo(dtype)
    exponent = max(_log2(abs(value)), info.minexp)
    unit = Fraction(2) ** (exponent - info.nmant)
    nearest = round(value / unit) * unit
    limit = Fraction(2) ** info.maxexp
    if abs(nearest) >= limit:
        return np.inf if nearest > 0 else -np.inf
    return float(nearest)


def _log2(value: Fraction) -> int:
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


def exact_fma(x: Array, y: Array, z: Array) -> Array:
    found = []
    for a, b, c in zip(x, y, z, strict=True):
        with np.errstate(all="ignore"):
            plain = np.float64(a) * np.float64(b) + np.float64(c)
        if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
            found.append(c if np.isfinite(a) and np.isfinite(b) else plain)
            continue
        value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if value == 0:  # the product's sign counts even where it underflows
            product = -0.0 if np.signbit(a) != np.signbit(b) else 0.0
            same_sign = np.signbit(product) == np.signbit(c)
            found.append(c * 0.0 if same_sign and (a == 0 or b == 0) else 0.0)
            continue
        rounded = _fraction_to_float(value, x.dtype)
        found.append(np.copysign(rounded, -1.0 if value < 0 else 1.0))
    return np.array(found, x.dtype)


BINARY: dict[str, tuple[str, Any]] = {
    "add": ("%r = fadd T %a, %b", lambda x, y: x + y),
    "sub": ("%r = fsub T %a, %b", lambda x, y: x - y),
    "mul": ("%r = fmul T %a, %b", lambda x, y: x * y),
    "div": ("%r = fdiv T %a, %b", lambda x, y: x / y),
    "negated": (
        "%n = fneg T %a\n %m = call T @llvm.fabs.F(T %b)\n %r = fadd T %n, %m",
        lambda x, y: -x + np.abs(y),
    ),
    "copysign": ("%r = call T @llvm.copysign.F(T %a, T %b)", np.copysign),
    "minnum": (
        "%r = call T @llvm.minimumnum.F(T %a, T %b)", lambda x, y: _number(x, y, True)
    ),
    "maxnum": (
        "%r = call T @llvm.maximumnum.F(T %a, T %b)", lambda x, y: _number(x, y, False)
    ),
    "minimum": ("%r = call T @llvm.minimum.F(T %a, T %b)", lambda x, y: _ieee(x, y, True)),
    "maximum": ("%r = call T @llvm.maximum.F(T %a, T %b)", lambda x, y: _ieee(x, y, False)),
}  # fmt: skip
UNARY: dict[str, tuple[str, Any]] = {
    "sqrt": ("%r = call T @llvm.sqrt.F(T %a)", np.sqrt),
    "reciprocal": ("%r = fdiv T 1.0, %a", lambda x: x.dtype.type(1) / x),
    "floor": ("%r = call T @llvm.floor.F(T %a)", np.floor),
    "ceil": ("%r = call T @llvm.ceil.F(T %a)", np.ceil),
    "trunc": ("%r = call T @llvm.trunc.F(T %a)", np.trunc),
    "rint": ("%r = call T @llvm.rint.F(T %a)", np.rint),
    "half_up": (
        "%x = fmul T %a, 0.5\n %r = fadd T %x, 4.0", lambda x: x * x.dtype.type(0.5) + 4
    ),
}  # fmt: skip
COMPARE: dict[str, Any] = {
    "oeq": np.equal, "olt": np.less, "ole": np.less_equal, "ogt": np.greater,
    "oge": np.greater_equal, "une": np.not_equal,
    "one": lambda x, y: (x < y) | (x > y), "ueq": lambda x, y: ~((x < y) | (x > y)),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)), "uno": lambda x, y: np.isnan(x) | np.isnan(y),
    "ult": lambda x, y: ~(x >= y), "ule": lambda x, y: ~(x > y), "ugt": lambda x, y: ~(x <= y),
    "uge": lambda x, y: ~(x < y),
}  # fmt: skip
SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


# LLVM makes these the bare f16 instructions, which err by up to 0.51 ulp.
BOUNDED_HALF = ("sqrt", "reciprocal")


def _expand(body: str, kind: str) -> str:
    return body.replace(".F", f".{SUFFIX[kind]}").replace("T ", f"{kind} ")


def _cases(kind: str) -> list[tuple[Case, Any]]:
    found = []
    for name, (body, wanted) in BINARY.items():
        found.append((Case(name, kind, (kind, kind), _expand(body, kind)), wanted))
    for name, (body, wanted) in UNARY.items():
        if kind == "half" and name in BOUNDED_HALF:
            continue
        found.append((Case(name, kind, (kind,), _expand(body, kind)), wanted))
    for name, wanted in COMPARE.items():
        found.append((Case(name, "i1", (kind, kind), f"%r = fcmp {name} {kind} %a, %b"), wanted))
    for bits in (8, 16, 32, 64):
        for sign, low, high in (
            ("s", -(1 << bits - 1), (1 << bits - 1) - 1),
            ("u", 0, (1 << bits) - 1),
        ):
            body = f"%r = call i{bits} @llvm.fpto{sign}i.sat.i{bits}.F(T %a)"
            case = Case(f"to_{sign}{bits}", f"i{bits}", (kind,), _expand(body, kind))
            dtype = f"{'u' if sign == 'u' else 'i'}{bits // 8}"
            found.append((case, _saturating(low, high, dtype)))
            # f16 cannot hold what numpy rounds twice on the way from 64 bits
            if not (kind == "half" and bits == 64):
                body = f"%r = {sign}itofp i{bits} %a to {kind}"
                case = Case(f"from_{sign}{bits}", kind, (f"i{bits}",), body)
                found.append((case, lambda x, d=dtype: x.view(d).astype(DTYPES[kind])))
    for other in DTYPES:
        if other != kind:
            op = "fpext" if DTYPES[other](0).nbytes > DTYPES[kind](0).nbytes else "fptrunc"
            case = Case(f"to_{other}", other, (kind,), f"%r = {op} {kind} %a to {other}")
            found.append((case, lambda x, o=other: x.astype(DTYPES[o])))
    body = "%r = call T @llvm.ldexp.F.i32(T %a, i32 %b)"
    found.append((Case("ldexp", kind, (kind, "i32"), _expand(body, kind)), _ldexp))
    return found


def _ldexp(x: Array, n: Array) -> Array:
    found = []
    for v, k in zip(x, n, strict=True):
        if not np.isfinite(v) or v == 0:
            found.append(float(v))
        else:
            value = Fraction(float(v)) * Fraction(2) ** int(np.clip(k, -3000, 3000))
            rounded = _fraction_to_float(value, x.dtype)
            found.append(np.copysign(rounded, float(v)))
    return np.array(found, x.dtype)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("processor", "wave"), TARGETS)
def test_float_code_gives_the_ieee_results(
    kind: str, processor: str, wave: int | None, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    cases = _cases(kind)
    data = compile_ir(module([c for c, _ in cases], wave=wave), processor)
    check_all(data, cases, rng, count=1024)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_a_fused_multiply_add_rounds_once(
    kind: str, processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    case = Case(
        "fma", kind, (kind,) * 3, _expand("%r = call T @llvm.fma.F(T %a, T %b, T %c)", kind)
    )
    data = compile_ir(module([case]), processor)
    x, y, z = inputs(case.arguments, rng, 2048)
    # sums that lie next to the middle of two floats: there a second rounding shows
    info = np.finfo(DTYPES[kind])
    x[-512:] = (1 + rng.integers(0, 1 << info.nmant // 2, 512) * 2.0 ** -(info.nmant // 2)).astype(
        x.dtype
    )
    y[-512:] = x[-512:][::-1]
    with np.errstate(all="ignore"):
        z[-512:] = (2.0 ** rng.integers(-2 * info.nmant - 4, 2 * info.nmant, 512)).astype(x.dtype)
    check_all(data, [(case, exact_fma)], rng, values=[x, y, z])


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_packed_half_arithmetic(processor: str, rng: np.random.Generator, require: Any) -> None:
    require("llc")
    v = "<2 x half>"
    pairs = {
        "add": (f"%r = fadd {v} %a, %b", lambda x, y: x + y),
        "mul": (f"%r = fmul {v} %a, %b", lambda x, y: x * y),
        "sub": (f"%r = fsub {v} %a, %b", lambda x, y: x - y),
        "swapped": (
            f"%x = shufflevector {v} %b, {v} poison, <2 x i32> <i32 1, i32 0>\n"
            f"%r = fadd {v} %a, %x",
            lambda x, y: x + y[:, ::-1],
        ),
        "constant": (
            f"%x = fmul {v} %a, splat (half 2.0)\n %r = fadd {v} %x, %b", lambda x, y: x * 2 + y
        ),
        "minnum": (
            f"%r = call {v} @llvm.minimumnum.v2f16({v} %a, {v} %b)",
            lambda x, y: _number(x, y, True),
        ),
    }  # fmt: skip
    cases = [(Case(n, v, (v, v), body), wanted) for n, (body, wanted) in pairs.items()]
    w = "<2 x i16>"
    integers = {
        "iadd": (f"%r = add {w} %a, %b", lambda x, y: x + y),
        "isub": (f"%r = sub {w} %a, %b", lambda x, y: x - y),
        "imul": (f"%r = mul {w} %a, %b", lambda x, y: x * y),
        "ashr": (f"%n = and {w} %b, splat (i16 15)\n %r = ashr {w} %a, %n",
                 lambda x, y: x >> (y & 15)),
        "smin": (f"%r = call {w} @llvm.smin.v2i16({w} %a, {w} %b)", np.minimum),
        "umax": (f"%r = call {w} @llvm.umax.v2i16({w} %a, {w} %b)",
                 lambda x, y: np.maximum(x.view(np.uint16), y.view(np.uint16))),
        "sat": (f"%r = call {w} @llvm.sadd.sat.v2i16({w} %a, {w} %b)",
                lambda x, y: np.clip(x.astype(int) + y, -32768, 32767)),
    }  # fmt: skip
    cases += [(Case(n, w, (w, w), body), wanted) for n, (body, wanted) in integers.items()]
    fma = Case("fma", v, (v, v, v), f"%r = call {v} @llvm.fma.v2f16({v} %a, {v} %b, {v} %c)")
    mix = Case(
        "mix", "float", ("half", "half", "float"),
        "%x = fpext half %a to float\n %y = fpext half %b to float\n"
        "%r = call float @llvm.fma.f32(float %x, float %y, float %c)",
    )  # fmt: skip
    data = compile_ir(module([*(c for c, _ in cases), fma, mix]), processor)
    check_all(data, cases, rng, count=1024)
    check_all(
        data,
        [
            (fma, lambda x, y, z: exact_fma(x.ravel(), y.ravel(), z.ravel()).reshape(x.shape)),
            (mix, lambda x, y, z: exact_fma(x.astype(np.float32), y.astype(np.float32), z)),
        ],
        rng,
        count=512,
    )


APPROXIMATE = {
    "rcp": ("llvm.amdgcn.rcp", lambda x: 1 / x),
    "rsq": ("llvm.amdgcn.rsq", lambda x: 1 / np.sqrt(x)),
    "sqrt": ("llvm.amdgcn.sqrt", np.sqrt),
    "exp2": ("llvm.amdgcn.exp2", np.exp2),
    "log": ("llvm.amdgcn.log", np.log2),
}


def _errors(got: Array, true: Array) -> Array:
    """In units of the last place of the nearest float."""
    spacing = np.spacing(np.abs(true.astype(got.dtype))).astype(np.float64)
    return np.abs(got.astype(np.float64) - true) / spacing


@pytest.mark.parametrize(("kind", "bound"), [("half", 0.51), ("float", 1.0)])
def test_approximate_instructions_err_within_their_bound_and_do_err(
    kind: str, bound: float, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    cases = [
        Case(name, kind, (kind,), f"%r = call {kind} @{f}.{SUFFIX[kind]}({kind} %a)")
        for name, (f, _) in APPROXIMATE.items()
    ]
    data = compile_ir(module(cases), "gfx1100")
    x = rng.uniform(0.1, 4, 16384).astype(DTYPES[kind])
    for case in cases:
        got = run_case(data, case, [x], rng)
        true = APPROXIMATE[case.name][1](x.astype(np.float64))
        assert _errors(got, true).max() < bound
        changed = ~same(got, true.astype(x.dtype))
        assert changed.mean() > (0.2 if kind == "float" else 0.001), "nothing is perturbed"


@pytest.mark.parametrize("processor", ["gfx1100", "gfx942"])
def test_half_roots_and_reciprocals_err_within_their_bound(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    for name in BOUNDED_HALF:
        body, wanted = UNARY[name]
        case = Case(name, "half", ("half",), _expand(body, "half"))
        data = compile_ir(module([case]), processor)
        x = np.abs(inputs(case.arguments, rng)[0])
        x = np.where(np.isfinite(x) & (x > 2.0**-14), x, np.float16(1))
        assert _errors(run_case(data, case, [x], rng), wanted(x.astype(np.float64))).max() <= 0.51


ROUNDINGS = {"tonearest": 0, "upward": 1, "downward": 2, "towardzero": 3}


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_a_conversion_rounds_as_the_mode_says(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    cases = [
        Case(
            f"to_half_{name}", "half", ("float",),
            f'%r = call half @llvm.fptrunc.round.f16.f32(float %a, metadata !"round.{name}")',
        )
        for name in ROUNDINGS
    ]  # fmt: skip
    data = compile_ir(module(cases), processor)
    x = inputs(("float",), rng, 2048)[0]
    for case in cases:
        got = run_case(data, case, [x], rng).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            true, nearest = x.astype(np.float64), x.astype(np.float16).astype(np.float64)
        finite = np.isfinite(true)
        direction = case.name.rpartition("_")[2]
        if direction == "tonearest":
            assert same(got, nearest).all()
        above = got >= true
        if direction == "upward":
            assert above[finite].all()
        if direction == "downward":
            assert (got <= true)[finite].all()
        if direction == "towardzero":
            assert (np.abs(got) <= np.abs(true))[finite].all()
        exact = finite & (nearest == true)
        assert (got == true)[exact].all()
        normal = finite & (np.abs(true) > 2.0**-14) & (np.abs(true) < 65504)
        error = np.abs(got[normal] - true[normal])
        assert (error < np.abs(true)[normal] * 2.0**-10).all()


@pytest.mark.parametrize("processor", ["gfx1100", "gfx1201", "gfx942"])
def test_two_floats_are_packed_toward_zero(
    processor: str, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    case = Case(
        "pack", "<2 x half>", ("float", "float"),
        "%r = call <2 x half> @llvm.amdgcn.cvt.pkrtz(float %a, float %b)",
    )  # fmt: skip

    def toward_zero(x: Array) -> Array:
        near = x.astype(np.float16)
        far = np.abs(near.astype(np.float64)) > np.abs(x.astype(np.float64))
        return np.where(far & np.isfinite(x), np.nextafter(near, np.float16(0)), near)

    def wanted(x: Array, y: Array) -> Array:
        return np.stack([toward_zero(x), toward_zero(y)], axis=1)

    # NaN and zeros of nextafter apart, whose signs are not of interest here
    x, y = (np.where(np.abs(v) < 2.0**-20, 1, v) for v in inputs(case.arguments, rng))
    check_all(compile_ir(module([case]), processor), [(case, wanted)], rng, values=[
        x.astype(np.float32), y.astype(np.float32),
    ])  # fmt: skip
