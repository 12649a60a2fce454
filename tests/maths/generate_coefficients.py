"""Fit the polynomials of ir/maths and write ir/maths/coefficients.py.

    python tests/maths/generate_coefficients.py          # needs mpmath

Every fit is a weighted least-squares fit on Chebyshev-dense points, sharpened to nearly the best
maximal error by Lawson's reweighting, in 60-digit arithmetic. Coefficients are then rounded to the
format one after the other, the lowest power first, each time refitting those that are left, so that
later ones make up for the rounding of earlier ones.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from pathlib import Path

from mpmath import mp, mpf

mp.dps = 60
Real = Callable[[mpf], mpf]


def to_format(value: mpf, dtype: str) -> float:
    """`value` rounded to nearest in f32 or f64."""
    if dtype == "f64":
        return float(value)
    word = struct.unpack("<f", struct.pack("<f", float(value)))[0]
    return float(word)


def nodes(low: mpf, high: mpf, count: int) -> list[mpf]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def least_squares(rows: list[list[mpf]], right: list[mpf], weights: list[mpf]) -> list[mpf]:
    n = len(rows[0])
    matrix, vector = mp.zeros(n, n), mp.zeros(n, 1)
    for row, r, w in zip(rows, right, weights, strict=True):
        for i in range(n):
            wi = w * row[i]
            vector[i] += wi * r
            for j in range(i, n):
                matrix[i, j] += wi * row[j]
    for i in range(n):
        for j in range(i):
            matrix[i, j] = matrix[j, i]
    return list(mp.lu_solve(matrix, vector))


def lawson(rows: list[list[mpf]], right: list[mpf], scale: list[mpf], rounds: int) -> list[mpf]:
    """Coefficients that nearly minimise the greatest |scale * (right - rows @ coefficients)|."""
    weights = [mpf(1)] * len(rows)
    solution: list[mpf] = []
    for _ in range(rounds):
        solution = least_squares(
            rows, right, [w * s * s for w, s in zip(weights, scale, strict=True)]
        )
        errors = [
            abs(s * (r - mp.fdot(row, solution)))
            for row, r, s in zip(rows, right, scale, strict=True)
        ]
        top = max(errors)
        if top == 0:
            break
        weights = [w * (e / top + mpf("1e-3")) for w, e in zip(weights, errors, strict=True)]
        total = sum(weights)
        weights = [w / total for w in weights]
    return solution


def fit(
    f: Real,
    low: float,
    high: float,
    degree: int,
    dtype: str,
    scale: Real | None = None,
    rounds: int = 12,
) -> tuple[float, ...]:
    """Coefficients of a polynomial near f on [low, high]; errors count times scale(x)."""
    points = nodes(mpf(low), mpf(high), 4 * (degree + 1))
    values = [f(x) for x in points]
    scales = [scale(x) if scale else mpf(1) for x in points]
    done: list[float] = []
    while len(done) <= degree:
        k = len(done)
        rows = [[x**j for j in range(k, degree + 1)] for x in points]
        solution = lawson(rows, values, scales, rounds if k == 0 else 3)
        done.append(to_format(solution[0], dtype))
        values = [v - done[-1] * x**k for v, x in zip(values, points, strict=True)]
    worst = max(abs(v * s) for v, s in zip(values, scales, strict=True))
    print(
        f"    degree {degree:2d}  error 2^{float(mp.log(worst, 2)) if worst else -999:.1f}",
        file=sys.stderr,
    )
    return tuple(done)


def split(value: mpf, bits: tuple[int, ...], dtype: str) -> tuple[float, ...]:
    """`value` as a sum: the k-th part is a multiple of 2**-bits[k], the last is what is left.

    No part is negative, so that products with a zero keep its sign.
    """
    parts = []
    for b in bits:
        part = mp.floor(value * mpf(2) ** b) / mpf(2) ** b
        parts.append(to_format(part, dtype))
        value -= part
    parts.append(to_format(value, dtype))
    return tuple(parts)


def short(value: mpf, single: int, double: int) -> dict[str, tuple[float, ...]]:
    """`value` as a multiple of 2**-single (f64: 2**-double) and the rest."""
    return {"f32": split(value, (single,), "f32"), "f64": split(value, (double,), "f64")}


def pair(value: mpf) -> dict[str, tuple[float, ...]]:
    """`value` as its float and the rest, in either format."""
    result = {}
    for dtype in ("f32", "f64"):
        high = to_format(value, dtype)
        result[dtype] = (high, to_format(value - high, dtype))
    return result


def both(
    make: Callable[[str, int], tuple[float, ...]], single: int, double: int
) -> dict[str, tuple[float, ...]]:
    return {"f32": make("f32", single), "f64": make("f64", double)}


def exponentials() -> dict[str, dict[str, tuple[float, ...]]]:
    edge = 0.35  # ln(2) / 2 and what a rounded quotient can add
    return {
        "exp": both(  # exp(r) = 1 + r + r*r*P(r)
            lambda t, d: fit(lambda r: (mp.expm1(r) - r) / r**2, -edge, edge, d, t, lambda r: r**2),
            4,
            9,
        ),
        "exp2": both(  # 2**r = 1 + r*P(r)
            lambda t, d: fit(
                lambda r: (mp.mpf(2) ** r - 1) / r, -0.5001, 0.5001, d, t, lambda r: r
            ),
            5,
            10,
        ),
        "ln2": short(mp.log(2), 15, 38),
    }


def logarithms() -> dict[str, dict[str, tuple[float, ...]]]:
    low, high = mp.sqrt(0.5) - 1 - mpf("1e-4"), mp.sqrt(2) - 1 + mpf("1e-4")
    s = (high / (2 + high)) ** 2

    def cubic(f: mpf) -> mpf:
        return (mp.log1p(f) - f + f * f / 2) / f**3

    def tail(z: mpf) -> mpf:
        root = mp.sqrt(z)
        return 2 * (mp.atanh(root) - root) / root**3

    return {
        # f32: log(1 + f) = f - f*f/2 + f**3 * P(f)
        # f64: s = f/(2 + f), z = s*s: log(1 + f) = 2 s + s*z*P(z)
        "log": {
            "f32": fit(cubic, low, high, 7, "f32", lambda f: f**2),
            "f64": fit(tail, mpf("1e-9"), s, 6, "f64", lambda z: z),
        },
        "log10_2": short(mp.log(2, 10), 15, 38),
        "log10_e": short(mp.log10(mp.e), 13, 28),
        "log2_e": short(1 / mp.log(2), 11, 26),
    }


def trigonometry() -> dict[str, dict[str, tuple[float, ...]]]:
    tiny, quarter = mpf("1e-12"), (mp.pi / 4 + mpf("1e-3")) ** 2

    def sine(z: mpf) -> mpf:
        r = mp.sqrt(z)
        return (r - mp.sin(r)) / (r * z)

    def cosine(z: mpf) -> mpf:
        return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2

    return {
        # sin(r) = r - r*z*P(z), z = r*r; cos(r) = 1 - z/2 + z*z*P(z)
        "sin": both(lambda t, d: fit(sine, tiny, quarter, d, t, lambda z: z), 2, 5),
        "cos": both(lambda t, d: fit(cosine, tiny, quarter, d, t, lambda z: z**2), 2, 5),
        "half_pi": {
            "f32": split(mp.pi / 2, (12, 23, 36), "f32"),
            "f64": split(mp.pi / 2, (31, 52, 83), "f64"),
        },
        "half_pi_pair": pair(mp.pi / 2),
    }


def odd(f: Real) -> Real:
    """(f(x) - x) / x**3 as a function of z = x*x."""

    def tail(z: mpf) -> mpf:
        x = mp.sqrt(z)
        return (f(x) - x) / (x * z)

    return tail


def inverses() -> dict[str, dict[str, tuple[float, ...]]]:
    tiny, edge = mpf("1e-12"), mp.tan(mp.pi / 8) + mpf("1e-3")
    return {
        # f(x) = x + x*z*P(z), z = x*x, for atan up to tan(pi/8), asin 1/2, sinh 1, tanh 5/8
        "atan": both(lambda t, d: fit(odd(mp.atan), tiny, edge**2, d, t, lambda z: z), 4, 11),
        "asin": both(lambda t, d: fit(odd(mp.asin), tiny, mpf("0.2502"), d, t, lambda z: z), 4, 11),
        "sinh": both(lambda t, d: fit(odd(mp.sinh), tiny, mpf(1), d, t, lambda z: z), 3, 6),
        "tanh": both(lambda t, d: fit(odd(mp.tanh), tiny, mpf("0.391"), d, t, lambda z: z), 4, 10),
        "pi_pair": pair(mp.pi),
    }


def complement(t: mpf) -> mpf:
    """(1 + 2 x) exp(x*x) erfc(x) at t = (x - 3) / (x + 3)."""
    x = 3 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def errors() -> dict[str, dict[str, tuple[float, ...]]]:
    def place(x: float) -> mpf:
        return (mpf(x) - 3) / (mpf(x) + 3)

    def slope(z: mpf) -> mpf:
        return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1

    return {
        "erf": both(
            lambda t, d: fit(slope, mpf("1e-12"), 1, d, t), 6, 13
        ),  # erf(x) = x + x*P(x*x) up to 1
        "erfc_log2": {"f32": fit(lambda a: mp.log(mp.erfc(a), 2), 0.999, 3.931, 6, "f32", mp.erfc)},
        "exp2_short": {
            "f32": fit(lambda r: (mpf(2) ** r - 1) / r, -0.5001, 0.5001, 4, "f32", lambda r: r)
        },
        "erfc": {
            "f32": fit(complement, place(0.24), place(10.2), 12, "f32"),
            "f64": fit(complement, place(0.24), place(27.5), 26, "f64"),
        },
    }


def powers() -> dict[str, dict[str, tuple[float, ...]]]:
    edge = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) + mpf("1e-4")
    tiny, c = mpf("1e-10"), 2 / mp.log(2)

    def tail(z: mpf) -> mpf:
        s = mp.sqrt(z)
        return c * ((mp.atanh(s) - s) / (s * z) - mpf(1) / 3) / z

    return {
        # s = f/(2 + f), z = s*s: log2(1 + f) = c s + s*z*(c/3 + z*P(z)), c = 2/log(2)
        "log2_tail": both(lambda t, d: fit(tail, tiny, edge**2, d, t, lambda z: z * z), 2, 6),
        "log2_first": pair(c),
        "log2_second": pair(c / 3),
        "log2_e_pair": pair(1 / mp.log(2)),
    }


def binet(x: mpf) -> mpf:
    return mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)


def gammas() -> dict[str, dict[str, tuple[float, ...]]]:
    def stirling(w: mpf) -> mpf:
        return mp.exp(binet(1 / w))

    def correction(v: mpf) -> mpf:
        return binet(1 / mp.sqrt(v)) / mp.sqrt(v)

    def near_two(f: mpf) -> mpf:
        return mp.loggamma(2 + f) / f

    def sine(z: mpf) -> mpf:
        return mp.sin(mp.pi * mp.sqrt(z)) / mp.sqrt(z)

    def steep(f: mpf) -> mpf:
        return (mp.gamma(2 + f) - 1) / f

    tiny, half = mpf("1e-9"), mpf("0.5")
    return {
        # gamma(x) = sqrt(2 pi) x**(x - 1/2) e**-x P(1/x), x >= 4 (f64: 8)
        "stirling": {
            "f32": fit(stirling, tiny, mpf(1) / 4, 4, "f32"),
            "f64": fit(stirling, tiny, mpf(1) / 8, 11, "f64"),
        },
        # log of the same, without sqrt(2 pi): P(1/x**2) / x
        "binet": {
            "f32": fit(correction, tiny, mpf(1) / 16, 1, "f32"),
            "f64": fit(correction, tiny, mpf(1) / 64, 5, "f64"),
        },
        # gamma(2 + f) = 1 + f * P(f) and its logarithm f * P(f), |f| <= 1/2
        "gamma": both(lambda t, d: fit(steep, -half, half, d, t, lambda f: f), 8, 18),
        "lgamma": both(
            lambda t, d: fit(near_two, -half, half, d, t, lambda f: 1 / near_two(f)), 8, 18
        ),
        # sin(pi r) = r * P(r*r), |r| <= 1/2
        "sinpi": both(lambda t, d: fit(sine, tiny, half**2, d, t, lambda z: 1 / sine(z)), 5, 9),
    }


FAMILIES = (exponentials, logarithms, trigonometry, inverses, errors, powers, gammas)


def main() -> None:
    tables: dict[str, dict[str, tuple[float, ...]]] = {}
    for family in FAMILIES:
        print(family.__name__, file=sys.stderr)
        tables |= family()
    lines = [
        '"""Coefficients of ir/maths, by name and format, lowest power first.',
        "",
        "Made by tests/maths/generate_coefficients.py, which states what each approximates.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "# fmt: off",
        "COEFFICIENTS: dict[str, dict[str, tuple[float, ...]]] = {",
    ]
    for name, formats in tables.items():
        lines.append(f'    "{name}": {{')
        for dtype, values in formats.items():
            lines.append(f'        "{dtype}": (')
            texts = [repr(v) for v in values]
            for k in range(0, len(texts), 3):
                lines.append("            " + ", ".join(texts[k : k + 3]) + ",")
            lines.append("        ),")
        lines.append("    },")
    lines += ["}", "# fmt: on", ""]
    out = Path(__file__).resolve().parents[2] / "ir" / "maths" / "coefficients.py"
    out.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
