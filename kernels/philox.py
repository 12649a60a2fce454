"""Random numbers by counter: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", SC 2011), and arrays filled with them.

A number depends on the key, the stream and its place alone, in whatever order numbers are made. The
words are the same on every device; floats made of them may differ within the op table's bounds. Key
and stream lie in a buffer of four u32, as a recording may replay with others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import (
    Read,
    Write,
    ceil_div,
    convert,
    cos,
    device,
    f32,
    global_id,
    kernel,
    log,
    mul_high,
    sin,
    sqrt,
    static_assert,
    static_range,
    u32,
)
from .family import (
    Args,
    Constexprs,
    Expected,
    Family,
    bound,
    empty,
)

_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
_TURN = 6.283185307179586


@device
def philox(c0, c1, c2, c3, k0, k1):
    """Four random u32 for a counter of four and a key of two."""
    for round in static_range(10):
        high0, low0 = mul_high(c0, u32(_M0)), c0 * u32(_M0)
        high1, low1 = mul_high(c2, u32(_M1)), c2 * u32(_M1)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        if round < 9:
            k0, k1 = k0 + u32(_W0), k1 + u32(_W1)
    return c0, c1, c2, c3


@device
def unit_interval(word):
    """A multiple of 2**-24 in [0, 1)."""
    return convert(word >> u32(8), f32) * 5.9604644775390625e-08


@device
def normal_pair(a, b):
    """Two normally distributed numbers (Box and Muller)."""
    radius = sqrt(-2 * log(1 - unit_interval(a)))
    angle = f32(_TURN) * unit_interval(b)
    return radius * cos(angle), radius * sin(angle)


@kernel(workgroup=lambda: (BLOCK, 1, 1), grid=lambda: (ceil_div(len(y), 4 * BLOCK), 1, 1))
def random_fill(
    y: Write[f32],
    state: Read[u32],
    scale: f32,
    shift: f32,
    *,
    KIND: str = "uniform",
    BLOCK: int = 256,
):
    """y = scale * r + shift, r uniform in [0, 1) or normally distributed, in two roundings.

    Elements 4i ... 4i + 3 come from the counter (i, 0, state[2], state[3]) and the key (state[0],
    state[1]).
    """
    static_assert(KIND in ("uniform", "normal"), "KIND is uniform or normal")
    i = global_id(0)
    if i * 4 < len(y):
        words = philox(u32(i), u32(0), state[2], state[3], state[0], state[1])
        if KIND == "normal":
            first, second = normal_pair(words[0], words[1]), normal_pair(words[2], words[3])
            values = (first[0], first[1], second[0], second[1])
        else:
            values = (
                unit_interval(words[0]),
                unit_interval(words[1]),
                unit_interval(words[2]),
                unit_interval(words[3]),
            )
        for lane in static_range(4):
            if i * 4 + lane < len(y):
                y[i * 4 + lane] = scale * values[lane] + shift


def philox_words(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """u32[..., 4] of counters u32[..., 4] and a key u32[2]."""
    c = [counter[..., n].astype(np.uint64) for n in range(4)]
    k = [int(n) for n in key]
    for _ in range(10):
        first, second = c[0] * np.uint64(_M0), c[2] * np.uint64(_M1)
        upper, lower = np.uint64(32), np.uint64(0xFFFFFFFF)
        c = [
            (second >> upper) ^ c[1] ^ np.uint64(k[0]),
            second & lower,
            (first >> upper) ^ c[3] ^ np.uint64(k[1]),
            first & lower,
        ]
        k = [(k[0] + _W0) % 2**32, (k[1] + _W1) % 2**32]
    return np.stack(c, -1).astype(np.uint32)


def words_of_rows(rows: int, cols: int, state: np.ndarray) -> np.ndarray:
    """u32[rows, cols]: number c % 4 of the counter (c // 4, row, stream)."""
    counter = np.zeros((rows, -(-cols // 4), 4), np.uint32)
    counter[..., 0] = np.arange(counter.shape[1])
    counter[..., 1] = np.arange(rows)[:, None]
    counter[..., 2:] = state[2:]
    return philox_words(counter, state[:2]).reshape(rows, -1)[:, :cols]


def _inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    for n in (1, 4099, 0):
        state = rng.integers(0, 2**32, 4, dtype=np.uint32)
        yield {"y": empty(n, f32), "state": state, "scale": 1.5, "shift": -0.25}


def _reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    n = len(args["y"])
    words = words_of_rows(1, -(-n // 4) * 4, args["state"])[0]
    r = (words >> np.uint32(8)) * 2.0**-24
    error = np.zeros(n)
    if constexprs["KIND"] == "normal":
        radius, angle = np.sqrt(-2 * np.log(1 - r[::2])), float(np.float32(_TURN)) * r[1::2]
        turned = np.exp(1j * angle)
        r = np.stack([radius * turned.real, radius * turned.imag], -1).reshape(-1)
        error = np.repeat(radius * (12 + angle), 2)[:n] + 2.0**-36
    value = args["scale"] * r[:n] + args["shift"]
    told = {"scale": args["scale"], "shift": args["shift"]}
    return {"y": Expected(value, _BOUND(error=error, value=value, **told))}


_BOUND = bound(
    "(error * scale + 2 * (abs(value) + abs(shift))) * u(f32)",
    # The root of a log errs by 4 ulp; an angle by a rounding, its sine and cosine by 2 ulp.
    error="0 of a uniform number; of a normal one r * (12 + angle) + 2**-36, r being the distance"
    " from 0 of its pair",
    scale="the argument",
    shift="the argument",
)
FAMILIES = (
    Family(
        random_fill,
        _inputs,
        _reference,
        "uniform: two roundings; normal: log, root, sine and cosine by the op table",
        {"": _BOUND},
    ),
)
