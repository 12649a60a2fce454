"""The steps of LLVM's division: scale, multiply-add with scaling, fix-up.

After the sequence (div_scale twice, rcp, refinement, div_fmas, div_fixup) the quotient is the IEEE
one. Cases: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP of AMD's RDNA3 ISA document; where its factors
would make a quotient wrong (a huge denominator), the one that makes it right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .decode import VCC, Instruction
from .exact import fma
from .operands import F16, F32, F64, OUTPUT_MODIFIERS, Kind, mask_target, source, target
from .registry import Build, Step, register
from .state import Arch, Machine
from .valu import clears_upper

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """`scale`: the power of two that brings a value away from an end of the range."""

    kind: Kind
    mantissa: int
    bias: int
    scale: int
    near_top: int  # difference of exponents from which a quotient may overflow
    tiny: int  # numerator exponents up to this are scaled up


FORMATS = {32: Format(F32, 23, 127, 64, 96, 23), 64: Format(F64, 52, 1023, 128, 768, 53)}


def exponent(x: Array) -> Array:
    """The biased exponent field, int64."""
    if x.dtype == np.float32:
        return (x.view(np.uint32) >> np.uint32(23) & np.uint32(0xFF)).astype(np.int64)
    return (x.view(np.uint64) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)


def _scaled(x: Array, power: int) -> Array:
    return x * x.dtype.type(2.0**power)


def scale(x: Array, d: Array, n: Array, f: Format) -> tuple[Array, Array]:
    """(x scaled, whether div_fmas must scale back); x is the denominator d or the numerator n."""
    x, d, n = (np.ascontiguousarray(v) for v in np.broadcast_arrays(x, d, n))
    difference = exponent(n) - exponent(d)
    tiny = np.finfo(x.dtype).smallest_normal
    denormal = (np.abs(d) < tiny) & (d != 0)
    inverse_denormal = np.isfinite(d) & (exponent(d) >= 2 * f.bias - 1)
    quotient = np.abs(n / d)
    quotient_denormal = (quotient < tiny) & np.isfinite(d) & np.isfinite(n)
    is_denominator = x == d
    up, down = _scaled(x, f.scale), _scaled(x, -f.scale)
    nothing = np.zeros(x.shape, np.bool_)
    cases = [
        ((n == 0) | (d == 0), np.full_like(x, np.nan), nothing),
        (difference >= f.near_top, np.where(is_denominator, up, x), ~nothing),
        (denormal, up, nothing),
        (inverse_denormal & quotient_denormal, np.where(is_denominator, down, x), ~nothing),
        (inverse_denormal, down, nothing),
        (quotient_denormal, np.where(x == n, up, x), ~nothing),
        (exponent(n) <= f.tiny, up, nothing),
    ]
    conditions = [c[0] for c in cases]
    return (
        np.select(conditions, [c[1] for c in cases], x),
        np.select(conditions, [c[2] for c in cases], nothing),
    )


def _scale(f: Format) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        """destination, mask, x, denominator, numerator."""
        reads = [source(i, k, f.kind) for k in (2, 3, 4)]
        write, mask = target(i, f.kind), mask_target(i, i.operands[1])

        def step(m: Machine) -> None:
            value, flag = scale(*(read(m) for read in reads), f)
            write(m, value)
            mask(m, flag)

        return step

    return build


def multiply_add_scaled(x: Array, y: Array, z: Array, flag: Array, f: Format) -> Array:
    """fma(x, y, z), times 2^scale or 2^-scale where `flag`, rounded once."""
    out = fma(x, y, z)
    if not flag.any():
        return out
    shape = np.broadcast_shapes(out.shape, flag.shape)
    x, y, z, out = (np.ascontiguousarray(np.broadcast_to(v, shape)) for v in (x, y, z, out))
    large = exponent(z) > f.bias
    result = np.where(flag & large, _scaled(out, f.scale), out)
    small = flag & ~large
    for at in zip(*np.nonzero(small), strict=True):
        values = [float(v[at]) for v in (x, y, z)]
        if not all(map(np.isfinite, values)):
            result[at] = out[at] * 2.0**-f.scale
            continue
        a, b, c = map(Fraction, values)
        result[at] = _rounded((a * b + c) * Fraction(1, 2**f.scale), f)
    return result


def _rounded(value: Fraction, f: Format) -> float:
    """The nearest number of the format, ties to even, denormals included."""
    if f.mantissa == 52:
        return float(value)
    step = Fraction(1, 2**149)  # denormals of f32: whole multiples of this
    if abs(value) < Fraction(1, 2**126):
        return float(round(value / step) * step)
    return float(np.float32(float(value)))


def _fmas(f: Format) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        reads, write = [source(i, k, f.kind) for k in (1, 2, 3)], target(i, f.kind)

        def step(m: Machine) -> None:
            flag = m.lane_bits(VCC)
            write(m, multiply_add_scaled(*(read(m) for read in reads), flag, f))

        return step

    return build


def fix_up(q: Array, d: Array, n: Array) -> Array:
    """The quotient q of n / d, put right where n or d is special."""
    negative = np.signbit(d) ^ np.signbit(n)
    one = q.dtype.type(1)
    sign = np.where(negative, -one, one)
    infinity, nan = q.dtype.type(np.inf), q.dtype.type(np.nan)
    invalid = ((d == 0) & (n == 0)) | (np.isinf(d) & np.isinf(n))
    return np.select(
        [n != n, d != d, invalid, (d == 0) | np.isinf(n), np.isinf(d) | (n == 0), q != q],
        # a quotient that is NaN has overflowed on its way
        [n, d, np.full_like(q, nan), sign * infinity, sign * q.dtype.type(0), sign * infinity],
        np.copysign(q, sign),
    )


def _vanishes(d: Array, n: Array) -> Array:
    """The quotient is below half of the smallest denormal."""
    limit = 150 if d.dtype == np.float32 else 1075
    return exponent(n) - exponent(d) < -limit


def _fixup(kind: Kind) -> Build:
    def build(i: Instruction, arch: Arch) -> Step:
        reads = [source(i, k, kind) for k in (1, 2, 3)]
        write = target(i, kind, clears_upper(i, arch, kind))

        def step(m: Machine) -> None:
            q, d, n = (np.ascontiguousarray(v) for v in np.broadcast_arrays(*(r(m) for r in reads)))
            if kind is not F16:
                q = np.where(_vanishes(d, n), q.dtype.type(0), q)
            write(m, fix_up(q, d, n))

        return step

    return build


_registrations: list[tuple[str, Callable[[Any], Build], Any]] = [
    (f"v_div_{name}_f{bits}", make, FORMATS[bits])
    for bits in (32, 64)
    for name, make in (("scale", _scale), ("fmas", _fmas))
]
for _mnemonic, _make, _format in _registrations:
    register(_mnemonic, _make(_format), OUTPUT_MODIFIERS)
for _kind in (F16, F32, F64):
    register(f"v_div_fixup_{_kind.name.lower()}", _fixup(_kind), OUTPUT_MODIFIERS)
