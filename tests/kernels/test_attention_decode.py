"""Attention of one token: splits merged are attention of the whole, faults, and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.kernels.attention_decode import attention_decode
from gristmill.kernels.attention_merge import attention_merge

DIM, PAGE, HEADS, KV_HEADS = 32, 16, 6, 2
SMALL = {"T": "f32", "C": "f32", "HEAD_DIM": DIM, "VEC": 4, "ROW": 8, "BLOCK": 32}


class Sequences:
    """Queries and a paged cache of some sequences, with NaNs in all pages that are not theirs."""

    def __init__(self, lengths: list[int]) -> None:
        rng = np.random.default_rng(11)
        self.lengths, self.most = lengths, -(-max(lengths) // PAGE)
        self.kv_heads = KV_HEADS
        pages = self.most * len(lengths) + 3
        shape = (pages, KV_HEADS, PAGE, DIM)
        self.q = rng.standard_normal((len(lengths), HEADS, DIM)).astype(np.float32)
        self.k, self.v = np.full((2, *shape), np.nan, np.float32)
        self.table = rng.permutation(pages)[: self.most * len(lengths)].astype(np.int32)
        self.table = self.table.reshape(len(lengths), self.most)
        self.keys = [rng.standard_normal((2, n, KV_HEADS, DIM)).astype(np.float32) for n in lengths]
        for row, keys in zip(self.table, self.keys, strict=True):
            for n in range(keys.shape[1]):
                self.k[row[n // PAGE], :, n % PAGE], self.v[row[n // PAGE], :, n % PAGE] = keys[
                    :, n
                ]

    def attend(
        self, splits: int, window: int = 0, together: int = 1, chunk: int | None = None
    ) -> np.ndarray:
        """What the kernels make of it, in the interpreter."""
        rows = (len(self.lengths), HEADS)
        y = np.full((*rows, DIM), 7.0, np.float32)
        parts = max(splits, 1)
        partial, stats = np.zeros((*rows, parts, DIM), "f4"), np.zeros((*rows, parts, 2), "f4")
        chunk = -(-self.most // parts) if chunk is None else chunk
        buffers = [self.q, self.k, self.v, self.table, np.array(self.lengths, np.int32)]
        buffers += [np.zeros(0, np.float32), y, partial, stats]
        numbers = [HEADS, self.kv_heads, splits, chunk, window, DIM**-0.5, 0.0, 1.0, 1.0]
        args: list[Any] = [a.reshape(-1) for a in buffers] + numbers
        kernel = attention_decode.trace("x", HEADS=together, **SMALL)
        report = interp.run(kernel, args, (max(splits, 1), HEADS // together, len(self.lengths)))
        self.problems = report.problems
        self.faults = [kernel.sites[site] for site in report.faults]
        if splits > 1:
            merge = attention_merge.trace("x", T="f32", HEAD_DIM=DIM)
            grid = (-(-y.size // 4 // 64), 1, 1)
            given = [partial.reshape(-1), stats.reshape(-1), y.reshape(-1), splits]
            assert not interp.run(merge, given, grid).problems
        return y

    def reference(self, window: int = 0) -> np.ndarray:
        """Attention over all keys at once, in f64."""
        out = np.zeros((len(self.lengths), HEADS, DIM))
        for b, keys in enumerate(self.keys):
            k, v = keys[:, -window:].astype(np.float64)
            for head in range(HEADS if keys.shape[1] else 0):
                of = head // (HEADS // KV_HEADS)
                score = k[:, of] @ self.q[b, head] * DIM**-0.5
                weight = np.exp(score - score.max())
                out[b, head] = weight @ v[:, of] / weight.sum()
        return out


@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("window", [0, 1, 21])
@pytest.mark.parametrize("splits", [1, 2, 5])
def test_splits_merged_are_attention_of_the_whole(splits: int, window: int, together: int) -> None:
    sequences = Sequences([75, 0, 16, 1])
    y = sequences.attend(splits, window, together)
    assert not sequences.problems
    assert not sequences.faults
    # Scores of some 6 at most, of 32 terms in f32, enter twice; weights and values add up.
    np.testing.assert_allclose(y, sequences.reference(window), rtol=0, atol=3e-6)


@pytest.mark.parametrize("number", [-1, 8])
def test_a_page_outside_the_cache_is_a_fault_and_not_read(number: int) -> None:
    sequences = Sequences([75])
    sequences.k[:] = sequences.v[:] = 1.0
    sequences.table[0, 2] = number
    y = sequences.attend(1)
    assert sequences.faults == ["attention_decode: page number outside the cache"]
    assert not sequences.problems
    np.testing.assert_array_equal(y, np.ones_like(y))


def test_more_keys_than_the_table_has_pages_for_are_a_fault_and_not_read() -> None:
    sequences = Sequences([75])
    sequences.k[:] = sequences.v[:] = 1.0
    sequences.table = sequences.table[:, :-1]
    y = sequences.attend(1)
    assert sequences.faults == ["attention_decode: more keys than there are pages for"]
    assert np.isfinite(y).all()


@pytest.mark.parametrize(("splits", "chunk"), [(2, 1), (1, 0), (1, -3)])
def test_keys_that_no_split_has_are_a_fault(splits: int, chunk: int) -> None:
    sequences = Sequences([75])
    sequences.attend(splits, chunk=chunk)
    assert sequences.faults == ["attention_decode: keys of no split"]
    assert not sequences.problems


@pytest.mark.parametrize(("splits", "chunk"), [(1, 2**31 - 1), (1, 2**27), (2**15, 2**12)])
def test_splits_of_keys_that_have_no_numbers_are_a_fault(splits: int, chunk: int) -> None:
    sequences = Sequences([75])
    sequences.attend(min(splits, 2), chunk=chunk * (splits // min(splits, 2)))
    assert sequences.faults == ["attention_decode: splits of more keys than have numbers"]
    assert not sequences.problems


@pytest.mark.parametrize("splits", [1, 4])
def test_a_split_may_have_more_pages_than_there_are(splits: int) -> None:
    sequences = Sequences([75, 3])
    y = sequences.attend(splits, chunk=6)
    assert not sequences.faults
    np.testing.assert_allclose(y, sequences.reference(), rtol=0, atol=3e-6)


@pytest.mark.parametrize("splits", [0, -1])
def test_no_split_is_a_fault(splits: int) -> None:
    sequences = Sequences([20])
    sequences.attend(splits)
    assert "attention_decode: no split" in sequences.faults


def test_an_empty_cache_is_a_fault_and_not_read() -> None:
    sequences = Sequences([20])
    sequences.k = sequences.v = np.zeros(0, np.float32)
    y = sequences.attend(1)
    assert sequences.faults == ["attention_decode: more keys than there are pages for"]
    assert not sequences.problems
    np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize(("together", "kv_heads"), [(2, 2), (1, 4), (1, 0), (1, 7)])
def test_heads_that_do_not_share_evenly_are_a_fault(together: int, kv_heads: int) -> None:
    sequences = Sequences([20])  # six heads
    sequences.kv_heads = kv_heads
    sequences.attend(1, together=together)
    message = "attention_decode: heads that do not share those of the cache evenly"
    assert message in sequences.faults
    assert not sequences.problems
