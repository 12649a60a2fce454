"""ldexp and fmod: exact apart from one rounding of ldexp's denormal results."""

from __future__ import annotations

import math

from .term import Term, anywhere, where


def power_of_two(exponent: Term, model: Term) -> Term:
    """2**exponent of an integer exponent in the normal range of model's format."""
    form = model.format
    return ((exponent + form.bias) << form.mantissa).bitcast(form.dtype)


def ldexp(x: Term, n: Term) -> Term:
    """x * 2**n, rounded once."""
    form = x.format
    reach = 2 * (form.bias + form.precision)
    n = n.op("min", reach).op("max", -reach).convert(form.sint)
    denormal = abs(x) < form.min_normal
    scaled = where(denormal, x * 2.0**form.precision, x)
    bits = scaled.signed_bits()
    field = (bits >> form.mantissa) & (2 * form.bias + 1)
    exponent = field - where(denormal, n.lift(form.bias + form.precision), form.bias) + n
    low, high = -(form.bias + form.precision + 2), form.bias + 2
    exponent = exponent.op("min", high).op("max", low)
    unit = ((bits & ~form.exponent_mask) | form.one).real()  # in [1, 2), with the sign of x
    half = exponent >> 1
    value = unit * power_of_two(half, x) * power_of_two(exponent - half, x)
    return where(x.eq(0.0) | ~(abs(x) < math.inf), x, value)


def fmod(x: Term, y: Term) -> Term:
    """x - trunc(x / y) * y without rounding: long division of mantissas, several bits a step."""
    form = x.format
    spare = form.dtype.bits - form.precision
    a, b = abs(x), abs(y)
    (ma, ea), (mb, eb) = _integer(a), _integer(b)
    reduces = (a >= b) & (a < math.inf) & (b > 0.0)
    distance = where(reduces, ea - eb, 0)
    builder = x.builder
    rest = ma.op("mod", mb)
    types = (rest.type, distance.type)
    with builder.region(*types) as test:
        left = x.make(test.args[1])
        builder.do("condition", anywhere(left > 0).value)
    with builder.region(*types) as body:
        rest_now, left = (x.make(value) for value in body.args)
        step = left.op("min", spare)
        shifted = rest_now << step.bitcast(form.uint)
        builder.do("continue", shifted.op("mod", mb).value, (left - step).value)
    op = builder.op(
        "while", (rest.value, distance.value), types=types, regions=(test.region, body.region)
    )
    rest = x.make(op.results[0])
    exponent = eb - (form.bias + form.mantissa)
    half = exponent >> 1
    value = rest.bitcast(form.sint).convert(form.dtype)
    value = value * power_of_two(half, x) * power_of_two(exponent - half, x)
    value = where(reduces, value.copysign(x), x)
    invalid = ~(a < math.inf) | b.eq(0.0) | b.ne(b)
    return where(invalid, math.nan, value)


def _integer(a: Term) -> tuple[Term, Term]:
    """The mantissa of a positive float as an integer, and its exponent field, 1 for denormals."""
    form = a.format
    bits = a.bits()
    field = (bits >> form.mantissa).bitcast(form.sint)
    normal = field > 0
    mantissa = (bits & form.mantissa_mask) | where(normal, bits.lift(1 << form.mantissa), 0)
    return mantissa, where(normal, field, 1)
