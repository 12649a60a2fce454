"""Attention of graphs beside one head of one token at a time, in plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_composites import close, wide
from gristmill.ir.graph import GraphBuilder, GraphTypeError
from gristmill.ir.graph.oracle import GraphFault


def attention_row(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, cap: float
) -> np.ndarray:
    """One head of one token over the keys that it sees."""
    scores = np.array([scale * (q * row).sum() for row in k])
    if cap:
        scores = cap * np.tanh(scores / cap)
    weights = np.exp(scores - scores.max())
    result: np.ndarray = (weights[:, None] * v).sum(0) / weights.sum()
    return result


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "cap"), [(0, 0.0), (3, 0.0), (0, 2.0)])
def test_a_token_sees_the_keys_up_to_its_own(
    causal: bool, window: int, cap: float, rng: np.random.Generator
) -> None:
    q = rng.standard_normal((4, 6, 8))
    k, v = rng.standard_normal((2, 7, 2, 8))
    window = window if causal else 0
    attrs = {"scale": 0.4, "causal": causal, "window": window, "cap": cap}
    (found,) = wide("attention_prefill", q, k, v, **attrs)
    for token in range(4):
        last = token + 3 if causal else 6
        first = max(0, last + 1 - window) if causal and window else 0
        for head in range(6):
            keys = slice(first, last + 1), head // 3
            close(found[token, head], attention_row(q[token, head], k[keys], v[keys], 0.4, cap))


@pytest.mark.parametrize("window", [0, 4])
def test_each_row_sees_its_own_pages(window: int, rng: np.random.Generator) -> None:
    q = rng.standard_normal((3, 4, 8))
    caches = rng.standard_normal((2, 6, 2, 3, 8))
    table = np.int32([[5, 0, 3], [1, 2, 4], [0, 0, 0]])
    lengths = np.int32([7, 9, 0])
    attrs = {"scale": 0.3, "window": window}
    (found,) = wide("attention_decode", q, *caches, table, lengths, **attrs)
    for row in range(2):
        for head in range(4):
            places = range(max(0, lengths[row] - window) if window else 0, lengths[row])
            k, v = (
                np.array([cache[table[row, n // 3], head // 2, n % 3] for n in places])
                for cache in caches
            )
            close(found[row, head], attention_row(q[row, head], k, v, 0.3, 0.0))
    assert not found[2].any()


class Paged:
    """Sequences of 4, 0, 3 and 1 tokens over 6, 2, 2 and 0 keys in pages of 3, whose rows behind
    the length are NaNs, and whose pages behind it do not exist."""

    starts, lengths = np.int32([0, 4, 4, 7, 8]), np.int32([6, 2, 2, 0])
    table = np.int32([[5, 0], [1, 99], [2, -1], [77, 78]])

    def __init__(self, rng: np.random.Generator) -> None:
        self.q = rng.standard_normal((8, 4, 8))
        self.caches = rng.standard_normal((2, 6, 2, 3, 8))
        self.caches[:, 1:3, :, 2] = np.nan
        self.caches[:, 3:5] = np.nan

    def found(self, **attrs: Any) -> np.ndarray:
        arrays = self.q, *self.caches, self.table, self.lengths, self.starts
        return wide("attention_paged", *arrays, scale=0.3, **attrs)[0]

    def keys(self, sequence: int, head: int, first: int, behind: int) -> list[np.ndarray]:
        places = range(first, behind)
        pages = self.table[sequence]
        return [np.array([c[pages[n // 3], head // 2, n % 3] for n in places]) for c in self.caches]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("window", "cap"), [(0, 0.0), (2, 0.0), (0, 2.0)])
def test_tokens_stand_at_the_last_keys_of_their_sequence(
    causal: bool, window: int, cap: float, rng: np.random.Generator
) -> None:
    paged = Paged(rng)
    window = window if causal else 0
    found = paged.found(causal=causal, window=window, cap=cap)
    for sequence in range(4):
        first, behind = paged.starts[sequence : sequence + 2]
        length = paged.lengths[sequence]
        for token, head in np.ndindex(int(behind - first), 4):
            end = length - (behind - first) + token + 1 if causal else length
            begin = max(0, end - window) if window else 0
            row = found[first + token, head]
            if end <= 0:
                np.testing.assert_array_equal(row, 0)
                continue
            k, v = paged.keys(sequence, head, begin, end)
            close(row, attention_row(paged.q[first + token, head], k, v, 0.3, cap))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("starts", [0, 4, 4, 7, 7]),
        ("starts", [1, 4, 4, 7, 8]),
        ("starts", [0, 5, 4, 7, 8]),
        ("starts", [0, 4, 4, 7, 9]),
        ("lengths", [6, 2, 7, 0]),
        ("table", [[5, 6], [1, 99], [2, -1], [77, 78]]),
        ("table", [[5, -1], [1, 99], [2, -1], [77, 78]]),
    ],
)
def test_tokens_of_no_sequence_and_keys_that_are_not_there_are_faults(
    name: str, values: list[Any], rng: np.random.Generator
) -> None:
    paged = Paged(rng)
    paged.found()
    setattr(paged, name, np.int32(values))
    with pytest.raises(GraphFault):
        paged.found()


def test_one_token_a_sequence_is_decoding(rng: np.random.Generator) -> None:
    q, caches = rng.standard_normal((3, 4, 8)), rng.standard_normal((2, 6, 2, 3, 8))
    table, lengths = np.int32([[5, 0], [1, 2], [4, 3]]), np.int32([4, 6, 1])
    (paged,) = wide(
        "attention_paged", q, *caches, table, lengths, np.int32([0, 1, 2, 3]), scale=0.5, window=3
    )
    close(paged, wide("attention_decode", q, *caches, table, lengths, scale=0.5, window=3)[0])


def test_rows_and_pages_behind_the_length_may_be_anything(rng: np.random.Generator) -> None:
    q = rng.standard_normal((2, 2, 4))
    caches = rng.standard_normal((2, 3, 1, 2, 4))
    caches[:, 0, :, 1] = np.nan
    table, lengths = np.int32([[0, 99], [1, -1]]), np.int32([1, 2])
    (found,) = wide("attention_decode", q, *caches, table, lengths, scale=0.5)
    assert np.isfinite(found).all()
    close(found[0], np.broadcast_to(caches[1, 0, 0, 0], (2, 4)))


def test_decoding_is_prefill_of_one_token(rng: np.random.Generator) -> None:
    q, (k, v) = rng.standard_normal((1, 4, 8)), rng.standard_normal((2, 6, 2, 8))
    table, length = np.int32([[0, 1]]), np.int32([6])
    caches = (x.reshape(2, 3, 2, 8).transpose(0, 2, 1, 3).copy() for x in (k, v))
    (paged,) = wide("attention_decode", q, *caches, table, length, scale=0.5)
    close(paged, wide("attention_prefill", q, k, v, scale=0.5)[0])


def test_tokens_stand_at_keys_that_are_there() -> None:
    g = GraphBuilder("bad")
    q, k = g.input("q", "f32", (3, 1, 4)), g.input("k", "f32", (2, 1, 4))
    with pytest.raises(GraphTypeError, match="3 tokens stand at 2 keys"):
        g.op("attention_prefill", q, k, k, scale=1.0)
    assert g.op("attention_prefill", q, k, k, scale=1.0, causal=False).shape == (3, 1, 4)
