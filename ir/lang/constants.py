"""Functions of constants, rounded correctly: the same bits on every machine.

`math` calls the C library of the host, whose last bit differs from one to the next. Here a result
is computed to 60 digits by `decimal`, whose operations are defined to the last digit, and rounded
to a float once. (A result within 1e-60 of the middle between two floats that is not exactly in the
middle would need more digits; none is known. Exact results are rounded exactly.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

_DIGITS = 60
_GREAT = 800.0  # exponents of e beyond which every result is 0 or overflows
_SMALL_POWER = 64
STEPS = 100  # statements that take as long to trace as a function to compute


def _exact(x: float, digits: int = _DIGITS) -> Context:
    """A context that loses nothing to an x near 0, near 1 or far from it."""
    size = abs(math.frexp(x)[1]) * 31 // 100 + 1 if x else 1  # decimal digits of the exponent
    return Context(prec=digits + 3 * size + 40, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _float(value: Decimal) -> float:
    """Rounded to nearest even. OverflowError where `math` raises it."""
    result = float(value)
    if math.isinf(result):
        raise OverflowError("math range error")
    return result


@cache
def _pi(digits: int) -> Decimal:
    """16 atan(1/5) - 4 atan(1/239) to more than `digits` digits."""
    scale = 10 ** (digits + 10)

    def inverse(n: int) -> int:
        total, power, k, sign = 0, scale // n, 1, 1
        while power:
            total += sign * (power // k)
            power //= n * n
            k, sign = k + 2, -sign
        return total

    return Decimal(16 * inverse(5) - 4 * inverse(239)) / Decimal(scale)


def _sin_cos(x: float) -> tuple[Decimal, Decimal, Context]:
    context = _exact(x)
    with localcontext(context):
        value = Decimal(x)
        half = _pi(context.prec) / 2
        turns = (value / half).to_integral_value()
        rest = value - turns * half
        sine = cosine = Decimal(0)
        term, n = Decimal(1), 0
        while abs(term) > Decimal(10) ** -context.prec * (abs(rest) or 1):
            if n % 2:
                sine += term if n % 4 == 1 else -term
            else:
                cosine += term if n % 4 == 0 else -term
            n += 1
            term = term * rest / n
        for _ in range(int(turns) % 4):
            sine, cosine = cosine, -sine
        return sine, cosine, context


def _sin(x: float) -> float:
    return _float(_sin_cos(x)[0]) if x else x


def _cos(x: float) -> float:
    return _float(_sin_cos(x)[1])


def _tan(x: float) -> float:
    sine, cosine, context = _sin_cos(x)
    return _float(context.divide(sine, cosine)) if x else x


def _arc(value: Decimal, context: Context) -> Decimal:
    """atan of a number that is not negative; within `localcontext(context)`."""
    if value > 1:
        return _pi(context.prec) / 2 - _arc(1 / value, context)
    halvings = 0
    while value > Decimal("0.01"):
        value = value / (1 + (1 + value * value).sqrt())
        halvings += 1
    total, term, k = Decimal(0), value, 1
    while abs(term) > Decimal(10) ** -context.prec * (abs(value) or 1):
        total += term / k if k % 4 == 1 else -term / k
        term *= value * value
        k += 2
    return total * Decimal(2**halvings)


def _atan(x: float) -> float:
    with localcontext(_exact(x)) as context:
        return math.copysign(_float(_arc(abs(Decimal(x)), context)), x)


def _asin(x: float) -> float:
    if abs(x) > 1:
        raise ValueError("math domain error")
    with localcontext(_exact(x)) as context:
        a = abs(Decimal(x))
        rest = ((1 - a) * (1 + a)).sqrt()
        angle = _arc(a / rest, context) if rest else _pi(context.prec) / 2
        return math.copysign(_float(angle), x)


def _acos(x: float) -> float:
    if abs(x) > 1:
        raise ValueError("math domain error")
    with localcontext(_exact(x)) as context:
        a = Decimal(x)
        if x == -1:
            return _float(_pi(context.prec))
        return _float(2 * _arc(((1 - a) / (1 + a)).sqrt(), context))


def _atan2(y: float, x: float) -> float:
    if not (x and y) or math.isinf(x) or math.isinf(y):
        return _special_angle(y, x)
    ratio = Fraction(abs(y)) / Fraction(abs(x))
    with localcontext(_exact(y, _DIGITS + 3 * abs(math.frexp(x)[1]))) as context:
        angle = _arc(Decimal(ratio.numerator) / Decimal(ratio.denominator), context)
        return math.copysign(_float(angle if x > 0 else _pi(context.prec) - angle), y)


def _special_angle(y: float, x: float) -> float:
    """atan2 where an argument is 0 or infinite: a multiple of a quarter of pi."""
    down = math.copysign(1.0, x) < 0
    if math.isinf(x) and math.isinf(y):
        quarters = 3 if down else 1
    elif math.isinf(y) or (not x and y):
        quarters = 2
    else:  # along the x axis
        quarters = 4 if down else 0
    return math.copysign(_float(_pi(_DIGITS) * quarters / 4), y)


def _of_exponentials(combine: Callable[[Decimal, Decimal], Decimal]) -> Callable[[float], float]:
    """A function of exp(x) and exp(-x)."""

    def function(x: float) -> float:
        x = max(min(x, _GREAT), -_GREAT)
        with localcontext(_exact(x)):
            e = Decimal(x).exp()
            return _float(combine(e, 1 / e)) if x or combine(e, e) else x

    return function


def _of_logarithm(
    argument: Callable[[Decimal], Decimal], scale: Callable[[], Decimal] = lambda: Decimal(1)
) -> Callable[[float], float]:
    """ln(argument(x)) / scale()."""

    def function(x: float) -> float:
        with localcontext(_exact(x)):
            inner = argument(Decimal(x))
            if inner <= 0:
                raise ValueError("math domain error")
            return _float(inner.ln() / scale()) or x * 0.0

    return function


def _log(x: float, base: float | None = None) -> float:
    with localcontext(_exact(x)):
        if min(x, 1 if base is None else base) <= 0:
            raise ValueError("math domain error")
        found = Decimal(x).ln()
        return _float(found if base is None else found / Decimal(base).ln())


def _exp2(x: float) -> float:
    return power(2.0, x)


def _acosh(x: float) -> float:
    if x < 1:
        raise ValueError("math domain error")
    with localcontext(_exact(x)):
        a = Decimal(x)
        return _float((a + ((a - 1) * (a + 1)).sqrt()).ln())


def _atanh(x: float) -> float:
    if abs(x) >= 1:
        raise ValueError("math domain error")
    with localcontext(_exact(x)):
        a = Decimal(x)
        return _float(((1 + a) / (1 - a)).ln() / 2) if x else x


def _asinh(x: float) -> float:
    with localcontext(_exact(x)):
        a = abs(Decimal(x))
        return math.copysign(_float((a + (a * a + 1).sqrt()).ln()), x)


def _cbrt(x: float) -> float:
    with localcontext(_exact(x)):
        return math.copysign(_float((abs(Decimal(x)).ln() / 3).exp()), x) if x else x


def _hypot(*sides: float) -> float:
    with localcontext(_exact(min(map(abs, filter(None, sides)), default=0.0), 700)):
        return _float(sum((Decimal(s) ** 2 for s in sides), Decimal(0)).sqrt())


def _fma(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return exact.numerator / exact.denominator if exact else a * b + c


def power(a: float, b: float) -> float:
    """a ** b of floats, as `math.pow`."""
    a, b = 1.0 * a, 1.0 * b  # TypeError for what is no number
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0 or abs(a) == 1:
        return math.pow(a, b)  # exact results and errors
    if a < 0 and b != math.floor(b):
        raise ValueError("math domain error")
    negative = a < 0 and b % 2 == 1
    if b == math.floor(b) and abs(b) <= _SMALL_POWER:
        exact = Fraction(abs(a)) ** int(b)
        size = exact.numerator / exact.denominator
    else:
        with localcontext(_exact(a)):
            exponent = Decimal(b) * Decimal(abs(a)).ln()
            if exponent > _GREAT:
                raise OverflowError("math range error")
            size = _float(_settled(max(exponent, Decimal(-_GREAT)).exp()))
    return -size if negative else size


def _settled(value: Decimal) -> Decimal:
    """A power that 80 bits hold is meant exactly: it may lie in the middle between two floats."""
    numerator, denominator = value.as_integer_ratio()
    shift = 100 - numerator.bit_length() + denominator.bit_length()
    scaled = Fraction(numerator, denominator) * Fraction(2) ** shift
    near = round(scaled)
    if near % (1 << 20) or abs(scaled - near) > Fraction(1, 1 << 60):
        return value
    return Decimal(near) * Decimal(2) ** -shift


FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": _of_exponentials(lambda e, _: e),
    "exp2": _exp2,
    "expm1": _of_exponentials(lambda e, _: e - 1),
    "sinh": _of_exponentials(lambda e, i: (e - i) / 2),
    "cosh": _of_exponentials(lambda e, i: (e + i) / 2),
    "tanh": _of_exponentials(lambda e, i: (e - i) / (e + i)),
    "log": _log,
    "log2": _of_logarithm(lambda a: a, lambda: Decimal(2).ln()),
    "log10": _of_logarithm(lambda a: a, lambda: Decimal(10).ln()),
    "log1p": _of_logarithm(lambda a: 1 + a),
    "sin": _sin, "cos": _cos, "tan": _tan, "asin": _asin, "acos": _acos, "atan": _atan,
    "atan2": _atan2, "asinh": _asinh, "acosh": _acosh, "atanh": _atanh,
    "cbrt": _cbrt, "hypot": _hypot, "fma": _fma, "pow": power,
}  # fmt: skip


def function(name: str) -> Callable[..., float] | None:
    """The function of that name, with `math`'s meaning at infinities and NaNs; None where there is
    none whose bits are the same everywhere."""
    found = FUNCTIONS.get(name)
    if found is None:
        return None

    def correct(*args: float) -> float:
        given = [float(a) for a in args]
        if all(map(math.isfinite, given)):
            return found(*given)
        return float(getattr(math, name, found)(*given))  # exact: 0, 1, an infinity, a NaN, pi / 2

    return correct
