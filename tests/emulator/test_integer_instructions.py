"""Integer code that LLVM makes for gfx11 and gfx12, in both wave sizes, against numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emulator_tools import Case, check_all, compile_ir, module

Array = np.ndarray[Any, Any]
TARGETS = [("gfx1100", None), ("gfx1201", None), ("gfx1100", 64), ("gfx1201", 64), ("gfx942", None)]

WIDTHS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.itemsize}")


def _shift(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda x, n: f(x, (n & (8 * x.dtype.itemsize - 1)).astype(x.dtype))


def _divide(x: Array, y: Array) -> Array:
    """Toward zero, on Python's integers; the divisor is never zero here."""
    q = [
        abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
        for a, b in zip(x, y, strict=True)
    ]
    bits = 8 * x.dtype.itemsize
    return np.array([(v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for v in q], x.dtype)


def _clamp_add(x: Array, y: Array, sign: int) -> Array:
    limits = np.iinfo(x.dtype)
    wide = [int(a) + sign * int(b) for a, b in zip(x, y, strict=True)]
    return np.array([min(max(v, limits.min), limits.max) for v in wide], x.dtype)


def _high(x: Array, y: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    low = (1 << bits) - 1
    found = [(int(a) * int(b) >> bits) & low for a, b in zip(x, y, strict=True)]
    return np.array(found, f"u{x.dtype.itemsize}")


def _reverse(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    raw = _unsigned(x)
    return np.array([int(f"{int(v):0{bits}b}"[::-1], 2) for v in raw], raw.dtype)


def _leading(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.array([bits - int(v).bit_length() for v in _unsigned(x)])


def _trailing(x: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    return np.array([(int(v) & -int(v)).bit_length() - 1 if v else bits for v in _unsigned(x)])


def _funnel(x: Array, y: Array, n: Array) -> Array:
    bits = 8 * x.dtype.itemsize
    rows = zip(_unsigned(x), _unsigned(y), _unsigned(n), strict=True)
    found = [((int(a) << bits | int(b)) << int(k) % bits) >> bits for a, b, k in rows]
    return np.array([v % (1 << bits) for v in found], f"u{x.dtype.itemsize}")


U = _unsigned
# name -> (body of two operands of %T, oracle)
BINARY: dict[str, tuple[str, Any]] = {
    "add": ("%r = add T %a, %b", lambda x, y: x + y),
    "sub": ("%r = sub T %a, %b", lambda x, y: x - y),
    "mul": ("%r = mul T %a, %b", lambda x, y: x * y),
    "and_": ("%r = and T %a, %b", lambda x, y: x & y),
    "or_": ("%r = or T %a, %b", lambda x, y: x | y),
    "xnor": ("%x = xor T %a, %b\n %r = xor T %x, -1", lambda x, y: ~(x ^ y)),
    "andn": ("%x = xor T %b, -1\n %r = and T %x, %a", lambda x, y: x & ~y),
    "shl": ("%n = and T %b, M\n %r = shl T %a, %n", _shift(lambda x, n: x << n)),
    "lshr": ("%n = and T %b, M\n %r = lshr T %a, %n", _shift(lambda x, n: U(x) >> U(n))),
    "ashr": ("%n = and T %b, M\n %r = ashr T %a, %n", _shift(lambda x, n: x >> n)),
    "smin": ("%r = call T @llvm.smin.T(T %a, T %b)", np.minimum),
    "smax": ("%r = call T @llvm.smax.T(T %a, T %b)", np.maximum),
    "umin": ("%r = call T @llvm.umin.T(T %a, T %b)", lambda x, y: np.minimum(U(x), U(y))),
    "umax": ("%r = call T @llvm.umax.T(T %a, T %b)", lambda x, y: np.maximum(U(x), U(y))),
    "uadd_sat": (
        "%r = call T @llvm.uadd.sat.T(T %a, T %b)", lambda x, y: _clamp_add(U(x), U(y), 1),
    ),
    "usub_sat": (
        "%r = call T @llvm.usub.sat.T(T %a, T %b)", lambda x, y: _clamp_add(U(x), U(y), -1),
    ),
    "sadd_sat": ("%r = call T @llvm.sadd.sat.T(T %a, T %b)", lambda x, y: _clamp_add(x, y, 1)),
    "ssub_sat": ("%r = call T @llvm.ssub.sat.T(T %a, T %b)", lambda x, y: _clamp_add(x, y, -1)),
    "udiv": ("%d = or T %b, 1\n %r = udiv T %a, %d", lambda x, y: U(x) // U(y | 1)),
    "urem": ("%d = or T %b, 1\n %r = urem T %a, %d", lambda x, y: U(x) % U(y | 1)),
    "sdiv": ("%d = or T %b, 1\n %r = sdiv T %a, %d", lambda x, y: _divide(x, y | 1)),
    "srem": ("%d = or T %b, 1\n %r = srem T %a, %d", lambda x, y: x - _divide(x, y | 1) * (y | 1)),
}  # fmt: skip
_ones = np.vectorize(lambda word: int(word).bit_count(), otypes=[np.uint32])
UNARY: dict[str, tuple[str, Any]] = {
    "popcount": ("%r = call T @llvm.ctpop.T(T %a)", lambda x: _ones(U(x))),
    "clz": ("%r = call T @llvm.ctlz.T(T %a, i1 false)", _leading),
    "ctz": ("%r = call T @llvm.cttz.T(T %a, i1 false)", _trailing),
    "reverse": ("%r = call T @llvm.bitreverse.T(T %a)", _reverse),
    "abs_": ("%r = call T @llvm.abs.T(T %a, i1 false)", np.abs),
}
WIDE: dict[str, tuple[str, Any]] = {
    "bswap": ("%r = call T @llvm.bswap.T(T %a)", lambda x: x.byteswap()),
}
PREDICATES: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda x, y: U(x) < U(y), "ule": lambda x, y: U(x) <= U(y),
    "ugt": lambda x, y: U(x) > U(y), "uge": lambda x, y: U(x) >= U(y),
}  # fmt: skip


def _cases() -> dict[str, tuple[Case, Any]]:
    found: dict[str, tuple[Case, Any]] = {}

    def put(name: str, kind: str, arguments: int, body: str, wanted: Any, result: str = "") -> None:
        bits = WIDTHS[kind]
        text = body.replace("M", str(bits - 1)).replace(".T", f".{kind}")
        text = text.replace("T ", f"{kind} ").replace("W ", f"i{2 * bits} ")
        case = Case(f"{name}_{kind}", result or kind, (kind,) * arguments, text)
        found[case.name] = case, wanted

    for kind in WIDTHS:
        for name, (body, wanted) in BINARY.items():
            put(name, kind, 2, body, wanted)
        for name, (body, wanted) in UNARY.items():
            put(name, kind, 1, body, wanted)
        for name, wanted in PREDICATES.items():
            put(name, kind, 2, f"%r = icmp {name} T %a, %b", wanted, "i1")
        put("funnel", kind, 3, "%r = call T @llvm.fshl.T(T %a, T %b, T %c)", _funnel)
        put("select", kind, 3, "%k = icmp slt T %a, %b\n %r = select i1 %k, T %c, T %b",
            lambda x, y, z: np.where(x < y, z, y))  # fmt: skip
        put("mad", kind, 3, "%x = mul T %a, %b\n %r = add T %x, %c", lambda x, y, z: x * y + z)
        put("bitselect", kind, 3,
            "%x = and T %a, %b\n %m = xor T %a, -1\n %y = and T %m, %c\n %r = or T %x, %y",
            lambda x, y, z: x & y | ~x & z)  # fmt: skip
        if kind != "i8":
            for name, (body, wanted) in WIDE.items():
                put(name, kind, 1, body, wanted)
        if kind != "i64":
            for name, ext, view in (("umulh", "zext", U), ("smulh", "sext", lambda v: v)):
                put(name, kind, 2,
                    f"%x = {ext} T %a to W \n %y = {ext} T %b to W \n %z = mul W %x, %y\n"
                    f"%h = lshr W %z, {WIDTHS[kind]}\n %r = trunc W %h to {kind}",
                    lambda x, y, view=view: _high(view(x), view(y)))  # fmt: skip
    for narrow, wide in (("i8", "i32"), ("i16", "i32"), ("i16", "i64"), ("i32", "i64")):
        for ext, wanted in (
            ("sext", lambda x, w=wide: x.astype(f"i{WIDTHS[w] // 8}")),
            ("zext", lambda x, w=wide: U(x).astype(f"i{WIDTHS[w] // 8}")),
        ):
            case = Case(
                f"{ext}_{narrow}_{wide}", wide, (narrow,), f"%r = {ext} {narrow} %a to {wide}"
            )
            found[case.name] = case, wanted
    case = Case("wide_mad", "i64", ("i32", "i32", "i64"),
                "%x = zext i32 %a to i64\n %y = zext i32 %b to i64\n %z = mul i64 %x, %y\n"
                "%r = add i64 %z, %c")  # fmt: skip
    found[case.name] = case, lambda x, y, z: U(x).astype(np.uint64) * U(y) + U(z)
    case = Case("wide_mad_signed", "i64", ("i32", "i32", "i64"),
                "%x = sext i32 %a to i64\n %y = sext i32 %b to i64\n %z = mul i64 %x, %y\n"
                "%r = add i64 %z, %c")  # fmt: skip
    found[case.name] = case, lambda x, y, z: x.astype(np.int64) * y + z
    return found


CASES = _cases()


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize(("processor", "wave"), TARGETS)
def test_integer_code_gives_what_numpy_gives(
    kind: str, processor: str, wave: int | None, rng: np.random.Generator, require: Any
) -> None:
    require("llc")
    chosen = {n: c for n, c in CASES.items() if c[0].arguments[0] == kind}
    data = compile_ir(module([c for c, _ in chosen.values()], wave=wave), processor)
    check_all(data, chosen.values(), rng)
