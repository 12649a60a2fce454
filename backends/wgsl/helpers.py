"""Functions of WGSL that kernels call, each written for the scalar or vector type that it is
used on."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.dtypes import DTYPES, DType, Type, element_of, lanes_of, with_element

# What must not be evaluated when WGSL is compiled is made with it.
ZERO = "var<private> zero: u32 = 0u;"

_LARGEST_DIVISOR = "85070591730234615865843651857942052864.0"  # 2**126

# 64-bit words and their halves, low first: naga's bitcast mistakes their types.
JOIN = """fn join(words: vec2<u32>) -> u64 {
  return (u64(words.y) << 32u) | u64(words.x);
}"""
SPLIT = """fn split(word: u64) -> vec2<u32> {
  return vec2<u32>(u32(word & 4294967295lu), u32(word >> 32u));
}"""


def type_name(t: Type) -> str:
    """The WGSL type of a value."""
    name = element_of(t).name
    return name if lanes_of(t) == 1 else f"vec{lanes_of(t)}<{name}>"


def as_type(t: Type, name: str) -> str:
    """The WGSL type of the shape of `t` with elements `name`."""
    return type_name(with_element(t, DTYPES[name]))


def zero(t: Type) -> str:
    """The zero of a type. Not `T()`: naga makes a null constant of that, and SwiftShader computes
    wrongly with vectors of which a lane is one, such as min(vec2<u32>(), vec2<u32>(1u)) ^ y."""
    element = element_of(t)
    one = "false" if element.is_bool else f"{'0.0' if element.is_float else 0}{suffix(element)}"
    return one if lanes_of(t) == 1 else f"{type_name(t)}({one})"


def full_name(name: str, t: Type) -> str:
    """The name of a helper on a type."""
    lanes = lanes_of(t)
    return f"{name}_{element_of(t).name}" + (f"x{lanes}" if lanes > 1 else "")


def magnitude(t: Type, x: str) -> str:
    """The bits of f32 or f16 without their sign, as u32; f16 as an f32."""
    u32 = as_type(t, "u32")
    if element_of(t).name == "f16":
        x = f"{as_type(t, 'f32')}({x})"
    return f"(bitcast<{u32}>({x}) & {u32}(0x7fffffffu))"


def _test(comparison: str) -> Callable[[str, Type], str]:
    def text(name: str, t: Type) -> str:
        flags, i32 = as_type(t, "bool"), as_type(t, "i32")
        if element_of(t).bits == 64:
            return _wide_test(name, t, comparison)
        # Without its sign a pattern is no negative word, and words with sign compare faster.
        test = f"bitcast<{i32}>{magnitude(t, 'x')} {comparison} {i32}(0x7f800000i)"
        return f"fn {name}(x: {type_name(t)}) -> {flags} {{\n  return {test};\n}}"

    return text


def _wide_test(name: str, t: Type, comparison: str) -> str:
    flags, u64 = as_type(t, "bool"), as_type(t, "u64")
    word = f"bitcast<{u64}>(x) & {u64}(0x7ffffffffffffffflu)"
    return (
        f"fn {name}(x: {type_name(t)}) -> {flags} {{\n"
        f"  return ({word}) {comparison} {u64}(0x7ff0000000000000lu);\n}}"
    )


def _extreme(function: str) -> Callable[[str, Type], str]:
    def text(name: str, t: Type) -> str:
        isnan, own = full_name("is_nan", t), type_name(t)
        return (
            f"fn {name}(a: {own}, b: {own}) -> {own} {{  // a NaN loses\n"
            f"  return select(select({function}(a, b), b, {isnan}(a)), a, {isnan}(b));\n}}"
        )

    return text


def _rounded_down(result: str) -> Callable[[str, Type], str]:
    """Signed division rounded down. WGSL defines / for every operand, and % as well; but the OpSRem
    that naga makes of % is undefined in Vulkan for operands below 0, and wrong on NVIDIA's."""

    def text(name: str, t: Type) -> str:
        own = type_name(t)
        none = zero(t)
        return (
            f"fn {name}(a: {own}, b: {own}) -> {own} {{\n"
            f"  let quotient = a / b;\n"
            f"  let rest = select(a - quotient * b, {none}, b == {none});\n"
            f"  let apart = ((rest ^ b) < {none}) & (rest != {none});\n"
            f"  return {result.format(zero=none, one=_one(t))};\n}}"
        )

    return text


def _one(t: Type) -> str:
    suffix = {"i32": "1i", "i64": "1li", "u32": "1u", "u64": "1lu"}[element_of(t).name]
    return suffix if lanes_of(t) == 1 else f"{type_name(t)}({suffix})"


def _divide(name: str, t: Type) -> str:
    """WGSL bounds the error of f32 quotients for divisors up to 2**126 only."""
    own = type_name(t)
    return (
        f"fn {name}(a: {own}, b: {own}) -> {own} {{\n"
        f"  let scale = select({own}(1.0), {own}(0.25), abs(b) > {own}({_LARGEST_DIVISOR}));\n"
        f"  return (a / (b * scale)) * scale;\n}}"
    )


def _copysign(name: str, t: Type) -> str:
    own, double = type_name(t), element_of(t).bits == 64
    none = zero(with_element(t, DTYPES["u64" if double else "u32"]))
    word, top = as_type(t, "u64" if double else "u32"), 63 if double else 31
    b = f"{as_type(t, 'f32')}(b)" if element_of(t).name == "f16" else "b"
    return (
        f"fn {name}(a: {own}, b: {own}) -> {own} {{\n"
        f"  let negative = (bitcast<{word}>({b}) >> {as_type(t, 'u32')}({top}u)) != {none};\n"
        f"  return select(abs(a), -abs(a), negative);\n}}"
    )


def _sign(name: str, t: Type) -> str:
    own, none = type_name(t), zero(t)
    return (
        f"fn {name}(x: {own}) -> {own} {{  // a NaN stays one\n"
        f"  let below = select(select(x, {none}, x == {none}), {own}(-1.0), x < {none});\n"
        f"  return select(below, {own}(1.0), x > {none});\n}}"
    )


def _from_u32(name: str, t: Type) -> str:
    """u32 to f32 by halves, rounded once: SwiftShader rounds values from 2**31 on wrongly."""
    f32, u32 = as_type(t, "f32"), as_type(t, "u32")
    return (
        f"fn {name}(x: {u32}) -> {f32} {{\n"
        f"  return {f32}(x >> {u32}(16u)) * {f32}(65536.0) + {f32}(x & {u32}(0xffffu));\n}}"
    )


_TEXTS: dict[str, tuple[tuple[str, ...], Callable[[str, Type], str]]] = {
    "is_nan": ((), _test(">")),
    "is_infinite": ((), _test("==")),
    "is_finite": ((), _test("<")),
    "least": (("is_nan",), _extreme("min")),
    "greatest": (("is_nan",), _extreme("max")),
    "floor_div": ((), _rounded_down("quotient - select({zero}, {one}, apart)")),
    "floor_mod": ((), _rounded_down("rest + select({zero}, b, apart)")),
    "divide": ((), _divide),
    "with_sign": ((), _copysign),
    "sign_of": ((), _sign),
    "to_f32": ((), _from_u32),
}


def closure(name: str) -> list[str]:
    """The helpers that one needs, itself last."""
    needs, _ = _TEXTS[name]
    return [part for need in needs for part in closure(need)] + [name]


def text(name: str, t: Type) -> str:
    """The definition of a helper on a type."""
    return _TEXTS[name][1](full_name(name, t), t)


def suffix(dtype: DType) -> str:
    """What ends a literal of a type."""
    return {"i32": "i", "u32": "u", "f16": "h", "f32": "f", "i64": "li", "u64": "lu", "f64": "lf"}[
        dtype.name
    ]
