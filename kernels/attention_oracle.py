"""Inputs and references of attention: paged KV caches, scores with the bounds of their errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..ir.lang import DType, f32
from .family import (
    Args,
    Bound,
    Constexprs,
    Expected,
    bound,
    decode,
    dtype,
    empty,
    encode,
    gamma,
    normal,
    u,
)

_LOG2_E = np.log2(np.e)
LOWEST = -3.4028234663852886e38  # of f32: the maximum where there is no key


def decode_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    t, c = dtype(constexprs), dtype(constexprs, "C")
    dim, together, page = (int(constexprs[n]) for n in ("HEAD_DIM", "HEADS", "PAGE"))
    for kv_heads, group, lengths, splits, window, cap, alibi in (
        (1, 1, (1,), 1, 0, 0.0, False),
        (2, 1, (0, 37), 1, 0, 0.0, True),
        (1, 3, (75, 3), 3, 20, 5.0, False),
    ):
        most = max(1, -(-max(lengths) // page))
        pages = most * len(lengths) + 1
        cache = (pages, kv_heads, page, dim)
        table = rng.permutation(pages)[: most * len(lengths)].reshape(len(lengths), most)
        heads = kv_heads * group * together
        k, v = normal(rng, cache, c), normal(rng, cache, c)
        _spoil(k, v, table, lengths, c)
        rows = (len(lengths), heads)
        yield {
            "q": normal(rng, (*rows, dim), t),
            "k_cache": k,
            "v_cache": v,
            "table": table.astype(np.int32),
            "lengths": np.array(lengths, np.int32),
            "slopes": -np.exp2(-rng.random(heads if alibi else 0) * 8).astype(np.float32),
            "y": empty((*rows, dim), t),
            "partial": np.zeros((*rows, splits, dim), np.float32),
            "stats": np.zeros((*rows, splits, 2), np.float32),
            "heads": heads,
            "kv_heads": kv_heads,
            "splits": splits,
            "chunk": max(1, -(-most // splits)),
            "window": window,
            "scale": dim**-0.5,
            "cap": cap,
            "k_scale": 1.0,
            "v_scale": 0.5,
        }


def _spoil(
    k: np.ndarray, v: np.ndarray, table: np.ndarray, lengths: tuple[int, ...], c: DType
) -> None:
    """NaNs where no key has been written."""
    if not c.is_float:
        return
    page = k.shape[2]
    for cache in (k, v):
        used = np.zeros((cache.shape[0], page), bool)
        for row, length in zip(table, lengths, strict=True):
            for n in range(length):
                used[row[n // page], n % page] = True
        nan = encode(np.array([np.nan]), c)
        cache.transpose(0, 2, 1, 3)[~used] = nan[0]


def _split(args: Args, constexprs: Constexprs, b: int, head: int, split: int) -> list[np.ndarray]:
    """Of the keys that a split of a sequence has for a head: scores in units of ln 2, bounds of
    their errors, and the rows of values."""
    t, c = dtype(constexprs), dtype(constexprs, "C")
    page, length = int(constexprs["PAGE"]), int(args["lengths"][b])
    kv_head = head // (args["heads"] // args["kv_heads"])
    oldest = max(length - args["window"], 0) if args["window"] else 0
    first = split * args["chunk"] * page
    place = np.arange(
        max(first, oldest), max(min(first + args["chunk"] * page, length), first, oldest)
    )
    pages = args["table"][b][place // page]
    q = decode(args["q"][b, head], t)
    k = decode(args["k_cache"][pages, kv_head, place % page], c)
    v = decode(args["v_cache"][pages, kv_head, place % page], c) * args["v_scale"]
    factor = np.float32(args["scale"]) * args["k_scale"]
    score = k @ q * factor
    error = np.abs(k) @ np.abs(q) * abs(factor) * gamma(2 * len(q) + 4, f32)
    if cap := args["cap"]:
        score = cap * np.tanh(score / cap)
        error = error + 8 * u(f32) * cap
    if args["slopes"].size:
        bias = float(args["slopes"][head]) * (place - (length - 1))
        score, error = score + bias, error + 2 * u(f32) * np.abs(bias)
    return [score * _LOG2_E, _LOG2_E * (error + 4 * u(f32) * np.abs(score)), v]


def _sums(score: np.ndarray, error: np.ndarray, v: np.ndarray, steps: float) -> list[np.ndarray]:
    """The maximum, the sum of weights, the weighted sum of v and of its magnitudes, and the
    relative error of what is summed: of arguments twice, of exp2 and a product in each of the
    steps."""
    top = score.max(initial=LOWEST)
    weight = np.exp2(score - top)
    spread = np.abs(score).max(initial=0.0)
    error = error.max(initial=0.0)
    relative = RELATIVE(error=error, spread=spread, steps=steps, keys=len(score))
    return [top, weight.sum(), weight @ v, weight @ np.abs(v), relative]


def _score(roundings: str, slopes: str = "") -> str:
    """The error of a score in words."""
    return (
        f"gamma({roundings}, f32) times the sum of abs(q * k) * scale, with a cap 8 * u(f32) * cap"
        f" more{slopes}; times log2(e), and 4 * u(f32) * abs(score)"
    )


def _relative(error: str) -> str:
    """RELATIVE in words."""
    terms = {**RELATIVE.terms, "error": f"the greatest of a score, in units of log(2): {error}"}
    return f"{RELATIVE.formula}: " + "; ".join(f"{k}: {v}" for k, v in terms.items())


def _rounded(error: str) -> Bound:
    """Of a result whose weights are rounded to T and summed with values as fragments."""
    return bound(
        "(2 * relative + u(T) + gamma(4 * keys + 8, f32)) * size + least(T) * total"
        " + abs(value) * u(T) + least(T)",
        relative=f"of a sum of weights: {_relative(error)}",
        keys="how many there are",
        size="the mean of abs(v) by weights",
        total="the sum of abs(v) over that of weights",
    )


_SCORE = _score("2 * HEAD_DIM + 4", ", with slopes 2 * u(f32) times what they add")
RELATIVE = bound(
    "log(2) * (2 * error + 8 * u(f32) * spread) + gamma(10 * steps + 2 * keys + 8, f32)",
    error="the greatest of a score, in units of log(2)",
    spread="the greatest magnitude of a score",
    steps="that the keys are taken in, and those of a merge",
    keys="how many there are",
)
PARTIAL = bound(
    "relative * size + least(f32)",
    relative=f"of a sum of weights: {RELATIVE.formula}",
    size="the sum of abs(v) by weights",
)
TOP = bound("error + 2 * u(f32) * abs(top)", error=f"of a score: {_SCORE}", top="the maximum")
WHOLE = bound(
    "off + abs(value) * u(T) + least(T)",
    off=f"2 * relative * the mean of abs(v) by weights, relative being {_relative(_SCORE)}",
)
DECODE_BOUNDS = {"y": WHOLE, "partial": PARTIAL, "the maximum in stats": TOP}
FRAGMENTS = _rounded(f"twice that of attention_decode, {_SCORE}")
PREFILL = _rounded(_score("4 * HEAD_DIM + 8"))
SPECIAL = "keys that do not count are not read: what is there may be a NaN"
SPECIAL_PREFILL = (
    "what is behind the last key of a sequence may be a NaN; values of its keys have to be finite,"
    " those before a window as well"
)


def decode_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    t, dim, splits = dtype(constexprs), int(constexprs["HEAD_DIM"]), args["splits"]
    batch, heads, _ = args["q"].shape
    together = int(constexprs["BLOCK"]) // int(constexprs["ROW"]) * int(constexprs["UNROLL"])
    value, off = np.zeros((2, batch, heads, splits, dim))
    stats, stats_bound = np.zeros((2, batch, heads, splits, 2))
    for b, head, split in np.ndindex(batch, heads, splits):
        score, error, v = _split(args, constexprs, b, head, split)
        steps = len(score) / together + np.log2(together) + 2
        top, whole, total, size, relative = _sums(score, error, v, steps)
        at = (b, head, split)
        if splits == 1:
            value[at] = total / whole if len(score) else 0.0
            off[at] = 2 * relative * size / whole if len(score) else 0.0
        else:
            value[at], off[at] = total, PARTIAL(relative=relative, size=size)
            stats[at] = top, whole
            if len(score):  # else it is LOWEST, exactly
                stats_bound[at] = TOP(error=error.max(), top=top), relative * whole
    if splits > 1:
        return {"partial": Expected(value, off), "stats": Expected(stats, stats_bound)}
    y = value[:, :, 0]
    return {"y": Expected(y, WHOLE(off=off[:, :, 0], value=y, T=t))}


def fragments_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    """Those of `decode_inputs`, with heads that make up to two workgroups of one of the cache."""
    for together in (1, 8):
        for args in decode_inputs(rng, {**constexprs, "HEADS": together}):
            groups = args["kv_heads"] * -(-args["heads"] // (16 * args["kv_heads"]))
            split = args["splits"] > 1
            found = {}
            for name, value in args.items():
                found[name] = value if split or name not in ("partial", "stats") else value[:0]
                if name == "stats":
                    count = len(args["lengths"]) * groups if split else 0
                    found["arrived"] = np.zeros(count, np.uint32)
            yield found


def fragments_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    """Attention over all splits, and the bound of its error: of scores and exponentials, twice, of
    weights that are rounded to T, and of sums of fragments (`mma`)."""
    t, dim = dtype(constexprs), int(constexprs["HEAD_DIM"])
    together = int(constexprs["WARPS"]) * int(constexprs["KEYS"])
    batch, heads, _ = args["q"].shape
    value, size, total = np.zeros((3, batch, heads, dim))
    relative, keys = np.zeros((2, batch, heads, 1))
    for b, head in np.ndindex(batch, heads):
        parts = [_split(args, constexprs, b, head, s) for s in range(args["splits"])]
        score, error, v = (np.concatenate(p) for p in zip(*parts, strict=True))
        if not len(score):
            continue
        steps = len(score) / together + together + args["splits"] + 2
        at = (b, head)
        _, whole, product, magnitude, relative[at] = _sums(score, 2 * error, v, steps)
        value[at], size[at], keys[at] = product / whole, magnitude / whole, len(score)
        total[at] = np.abs(v).sum(0) / whole
    off = FRAGMENTS(relative=relative, keys=keys, size=size, total=total, value=value, T=t)
    arrived = Expected(np.zeros(args["arrived"].shape, np.int64))
    return {"y": Expected(value, off), "arrived": arrived}


# Heads of the cache, heads for each, queries and keys of each sequence, causal, window, cap.
Prompt = tuple[int, int, tuple[int, ...], tuple[int, ...], int, int, float]
_PROMPTS: tuple[Prompt, ...] = (
    (1, 1, (1,), (1,), 1, 0, 0.0),
    (1, 2, (18, 0, 3), (18, 2, 70), 1, 0, 0.0),
    (2, 1, (66, 16), (75, 16), 1, 21, 5.0),
    (1, 1, (34,), (34,), 0, 0, 0.0),
)
# Several tiles of queries, whose keys are whole tiles that all of them see, and some more.
_LONG_PROMPTS: tuple[Prompt, ...] = (
    (1, 2, (384,), (384,), 1, 0, 0.0),
    (1, 1, (200, 130), (509, 131), 1, 0, 0.0),
    (1, 1, (64,), (352,), 0, 0, 3.0),
    (1, 1, (150,), (400,), 1, 170, 0.0),
)
# More queries than keys.
_EARLY_PROMPTS: tuple[Prompt, ...] = (
    (1, 1, (20, 2), (3, 0), 0, 0, 0.0),
    (1, 1, (18,), (17,), 1, 0, 0.0),
)


def prefill_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    """Queries at the end of sequences, one of them without any; see `attention_prefill`."""
    for prompt in (*_PROMPTS, *_EARLY_PROMPTS):
        yield _prompt(rng, constexprs, prompt)


def long_prefill_inputs(rng: np.random.Generator, constexprs: Constexprs) -> Iterator[Args]:
    """Those, and prompts of several tiles."""
    for prompt in (*_PROMPTS, *_LONG_PROMPTS, *_EARLY_PROMPTS):
        yield _prompt(rng, constexprs, prompt)


def _prompt(rng: np.random.Generator, constexprs: Constexprs, prompt: Prompt) -> Args:
    t, dim, page = dtype(constexprs), int(constexprs["HEAD_DIM"]), int(constexprs["PAGE"])
    kv_heads, group, queries, lengths, causal, window, cap = prompt
    most = -(-max(lengths) // page)
    pages = most * len(lengths) + 1
    table = rng.permutation(pages)[: most * len(lengths)].reshape(len(lengths), most)
    k, v = (normal(rng, (pages, kv_heads, page, dim), t) for _ in range(2))
    _spoil(k, v, table, lengths, t)
    shape = (sum(queries), kv_heads * group, dim)
    return {
        "q": normal(rng, shape, t),
        "k_cache": k,
        "v_cache": v,
        "table": table.astype(np.int32),
        "lengths": np.array(lengths, np.int32),
        "starts": np.cumsum([0, *queries]).astype(np.int32),
        "y": empty(shape, t),
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "most": max(queries),
        "window": window,
        "causal": causal,
        "scale": dim**-0.5,
        "cap": cap,
    }


def _seen(args: Args, t: DType, b: int, n: int, head: int, page: int) -> list[np.ndarray]:
    """Query, keys and values, decoded, of query number n of sequence b."""
    first, behind = (int(x) for x in args["starts"][b : b + 2])
    length = int(args["lengths"][b])
    position = length - (behind - first) + n
    least_key = max(position + 1 - args["window"], 0) if args["window"] else 0
    place = np.arange(least_key, max(position + 1, 0) if args["causal"] else length)
    pages = args["table"][b][place // page]
    kv_head = head // (args["heads"] // args["kv_heads"])
    caches = (decode(args[c][pages, kv_head, place % page], t) for c in ("k_cache", "v_cache"))
    return [decode(args["q"][first + n, head], t), *caches]


def prefill_reference(args: Args, constexprs: Constexprs) -> dict[str, Expected]:
    """Attention in f64, and the bound of its error: of scores and exponentials, twice, of weights
    that are rounded to T, and of sums of fragments (`mma`)."""
    t, page = dtype(constexprs), int(constexprs["PAGE"])
    value, size, total = np.zeros((3, *args["q"].shape))
    relative, keys = np.zeros((2, *args["q"].shape[:-1], 1))
    for b in range(len(args["lengths"])):
        first, behind = (int(x) for x in args["starts"][b : b + 2])
        for n, head in np.ndindex(behind - first, args["heads"]):
            q, k, v = _seen(args, t, b, n, head, page)
            score = k @ q * np.float32(args["scale"])
            error = np.abs(k) @ np.abs(q) * args["scale"] * gamma(4 * len(q) + 8, f32)
            if cap := args["cap"]:
                score = cap * np.tanh(score / cap)
                error = error + 8 * u(f32) * cap
            score, error = score * _LOG2_E, _LOG2_E * (error + 4 * u(f32) * np.abs(score))
            steps = len(score) / int(constexprs["BK"]) + 2
            if not len(score):
                continue
            at = (first + n, head)
            _, whole, product, magnitude, relative[at] = _sums(score, error, v, steps)
            value[at], size[at], keys[at] = product / whole, magnitude / whole, len(score)
            total[at] = np.abs(v).sum(0) / whole
    off = PREFILL(relative=relative, keys=keys, size=size, total=total, value=value, T=t)
    return {"y": Expected(value, off)}
