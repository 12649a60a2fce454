"""The logarithm of the gamma function, of f64, for the op table's meaning.

Python's loses all digits near its zeros at 1 and 2. There it is a sum of powers of the
distance from 2 (DLMF 5.7.3, of gamma(2 + z)):

    log gamma(2 + z) = (1 - euler) z + sum over k >= 2 of (zeta(k) - 1) (-z)**k / k    for |z| < 2
"""

from __future__ import annotations

import math
from functools import cache

_EULER = 0.57721566490153286061
_TERMS = 45  # each is less than 3/8 of the one before, for |z| <= 3/4
_FAR = 8.0  # from here on Python's is good
_SUMMED = 300  # terms of zeta that are added up; a formula gives the others


def log_gamma(x: float) -> float:
    """Within 3 ulp above 0; below, of lgamma(-x) or 1, whichever is greater. Infinite at poles."""
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    if 0 < x < 0.5:
        return _near_two(x) - math.log1p(x) - math.log(x)
    if 0.5 <= x < 1.25:
        return _near_two(x - 1) - math.log1p(x - 1)
    if 1.25 <= x < _FAR:
        total = 0.0
        while x >= 2.5:
            x -= 1
            total += math.log(x)
        return _near_two(x - 2) + total
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _near_two(z: float) -> float:
    """log gamma(2 + z)."""
    total = 0.0
    for factor in reversed(_factors()):
        total = total * z + factor
    return total * z


@cache
def _factors() -> tuple[float, ...]:
    """Of z, z**2, ..."""
    return (1 - _EULER, *((-1) ** k * _zeta_rest(k) / k for k in range(2, _TERMS)))


def _zeta_rest(k: int) -> float:
    """zeta(k) - 1: a sum, and by Euler and Maclaurin's formula what is left of it."""
    n = float(_SUMMED)
    left = (n / (k - 1) + 1 / 2 + k / (12 * n) - k * (k + 1) * (k + 2) / (720 * n**3)) * n**-k
    return math.fsum([*(float(m) ** -k for m in range(2, _SUMMED)), left])
