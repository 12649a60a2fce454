"""Reduction of an angle to the remainder of a multiple of pi/2, over the whole range.

Moderate angles: the multiple times pi/2 in parts short enough for exact products (Cody and Waite).
Larger ones: Payne and Hanek, Radian Reduction for Trigonometric Functions (1983), in integer
words: the mantissa times the three words of 1/pi that matter for its exponent gives x / pi modulo
2 as a fixed-point number. Those ops stand in a branch, since few kernels ever need them.
"""

from __future__ import annotations

import math

from . import double_word as dw
from .double_word import Pair
from .exponential import coefficients, whole
from .term import Term, anywhere, when, where

_DIGITS = 1344  # bits of 1/pi, more than the 19 words of 64 bits that f64 needs


def _inverse_pi() -> int:
    """2**1344 / pi rounded down, by Machin's formula in integers."""
    one = 1 << (_DIGITS + 64)

    def arctan_inverse(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    return (one << _DIGITS) // (4 * (4 * arctan_inverse(5) - arctan_inverse(239)))


INVERSE_PI = _inverse_pi()


def remainder(x: Term) -> tuple[Term, Term, Term]:
    """(word, r, excess) with x = n pi/2 + r - excess, |r| <= pi/4 and what rounding n adds.

    The two low bits of the word are those of n; its others are of no use. The excess is below an
    ulp of r, or of its own size where r is tiny; it is +0 for x = -0. r is NaN for inf and NaN.
    """
    n, word = whole((x, 2 / math.pi))
    first, second, third, last = coefficients("half_pi", x)
    # Exact: both differences are multiples of a bit that they have room for. No fma, since a
    # driver that takes it for a product and a sum may gather n * first + n * second.
    exact = (x - n * first) - n * second
    part = n * third  # no rounding
    r = exact - part
    excess = n.fma(last, part - (exact - r))
    large = abs(x) > x.format.pick(1023.0, 2.0**20 - 1) * (math.pi / 2)

    def far() -> tuple[Term, ...]:
        turns, rest = _large(x)
        high = where(abs(x) < math.inf, rest.high, math.nan)
        return where(large, turns, word), where(large, high, r), where(large, -rest.low, excess)

    word, r, excess = when(anywhere(large), far, (word, r, excess))
    return word, r, excess


def _large(x: Term) -> tuple[Term, Pair]:
    """Payne and Hanek's reduction."""
    high, low = _turns(x)
    width = x.format.dtype.bits
    n = (high + (1 << (width - 3))) >> (width - 2)
    fraction = (high << 2) | (low >> (width - 2)), low << 2
    r = dw.multiply(_signed_fraction(fraction, x), dw.constant(x, coefficients("half_pi_pair", x)))
    sign = x.sign_bit()
    turned = where(sign.ne(0), n.lift(0) - n, n)
    return turned, Pair(r.high.with_sign(sign), r.low.with_sign(sign))


def _turns(x: Term) -> tuple[Term, Term]:
    """|x| / pi modulo 2 as a fixed-point number of two words, the first bit of which is 1."""
    form = x.format
    width, bits = form.dtype.bits, abs(x).bits()
    mantissa = (bits & form.mantissa_mask) | (1 << form.mantissa)
    # |x| = mantissa * 2**power. Bits of 1/pi that are worth multiples of 2 after scaling by
    # 2**power cannot matter; zeros before its first bit allow for powers down to -width/2.
    position = (bits >> form.mantissa) - (form.bias + form.mantissa - width // 2)
    words = _words(
        position >> (width.bit_length() - 1), width, form.bias - form.mantissa + width // 2
    )
    shift = position & (width - 1)
    back = (width - 1) - shift
    a, b, c = ((words[k] << shift) | ((words[k + 1] >> 1) >> back) for k in range(3))
    middle = mantissa * b
    low = middle + mantissa.op("mul_high", c)
    carry = where(low < middle, low.lift(1), 0)
    return mantissa * a + mantissa.op("mul_high", b) + carry, low


def _words(index: Term, width: int, last: int) -> list[Term]:
    """Words index .. index + 3 of the digits of 1/pi behind width/2 + 1 zeros."""
    choices = last // width + 1
    count = choices + 3
    digits = INVERSE_PI >> (_DIGITS - (count * width - width // 2 - 1))
    mask = (1 << width) - 1
    words = [index.lift((digits >> (width * (count - 1 - k))) & mask) for k in range(count)]
    step = 1 << ((choices - 1).bit_length() - 1)
    while step:  # halve what is left by one bit of the index
        chosen = (index & step).ne(0)
        rest = min(len(words), step - 1 + 4)
        words = [where(chosen, words[min(k + step, len(words) - 1)], words[k]) for k in range(rest)]
        step >>= 1
    return words


def _signed_fraction(fraction: tuple[Term, Term], x: Term) -> Pair:
    """The two's complement number `fraction` / 2**(2 width), in [-1/2, 1/2)."""
    form = x.format
    width, precision = form.dtype.bits, form.precision
    flip = (fraction[0].bitcast(form.sint) >> (width - 1)).bitcast(form.uint)
    high, low = (word ^ flip for word in fraction)
    drop = width - precision
    take = precision - drop
    rest = width - take
    pieces = (
        high >> drop,
        ((high & ((1 << drop) - 1)) << take) | (low >> rest),
        low & ((1 << rest) - 1),
    )
    a, b, c = (p.bitcast(form.sint).convert(form.dtype) for p in pieces)
    tail = dw.quick_two_sum(b * 2.0 ** (-2 * precision), c * 2.0 ** (-2 * width))
    total = dw.quick_two_sum(a * 2.0**-precision, tail.high)
    sign = flip & form.sign_mask
    return Pair(total.high.with_sign(sign), (total.low + tail.low).with_sign(sign))
