"""Attention of many tokens: against attention over plain rows, token by token, and faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.kernels import families
from gristmill.kernels.attention_prefill import attention_prefill
from gristmill.kernels.attention_tiles import attention_prefill_tiles

DIM, PAGE, HEADS, KV_HEADS, ROWS = 32, 16, 4, 2, 32
SMALL: dict[str, Any] = {"T": "f16", "HEAD_DIM": DIM, "ROWS": ROWS, "BK": 16}
BOTH = {"attention_prefill": attention_prefill, "attention_prefill_tiles": attention_prefill_tiles}
F16_STEP = 2.0**-11


class Prompts:
    """Sequences of (queries, keys) tokens, with NaNs in what no key has been written to."""

    def __init__(self, *sizes: tuple[int, int]) -> None:
        rng = np.random.default_rng(5)
        self.sizes, self.most = sizes, max(1, -(-max(n for _, n in sizes) // PAGE))
        pages = self.most * len(sizes) + 2
        self.q = rng.standard_normal((sum(m for m, _ in sizes), HEADS, DIM)).astype(np.float16)
        self.k, self.v = np.full((2, pages, KV_HEADS, PAGE, DIM), np.nan, np.float16)
        self.table = rng.permutation(pages)[: self.most * len(sizes)].astype(np.int32)
        self.table = self.table.reshape(len(sizes), self.most)
        self.keys = [
            rng.standard_normal((2, n, KV_HEADS, DIM)).astype(np.float16) for _, n in sizes
        ]
        for row, keys in zip(self.table, self.keys, strict=True):
            for n in range(keys.shape[1]):
                self.k[row[n // PAGE], :, n % PAGE], self.v[row[n // PAGE], :, n % PAGE] = keys[
                    :, n
                ]
        self.starts = np.cumsum([0, *(m for m, _ in sizes)]).astype(np.int32)

    def attend(self, name: str, window: int, causal: int) -> np.ndarray:
        """What a kernel makes of it, in the interpreter."""
        y = np.full(self.q.shape, 7.0, np.float16)
        lengths = np.array([n for _, n in self.sizes], np.int32)
        buffers = (self.q, self.k, self.v, self.table, lengths, self.starts, y)
        most = max(m for m, _ in self.sizes)
        args: list[Any] = [a.reshape(-1) for a in buffers]
        args += [HEADS, KV_HEADS, most, window, causal, DIM**-0.5, 0.0]
        kernel = BOTH[name].trace("x", **SMALL)
        report = interp.run(kernel, args, (-(-most // ROWS), HEADS, len(self.sizes)))
        assert not report.problems
        self.faults = [kernel.sites[site] for site in report.faults]
        return y

    def reference(self, window: int, causal: int) -> np.ndarray:
        """Attention in f64, one token at a time."""
        out = np.zeros(self.q.shape)
        for b, (count, length) in enumerate(self.sizes):
            for n, head in np.ndindex(count, HEADS):
                own = length - count + n
                seen = np.arange(length)
                seen = seen[(seen <= own) | (causal == 0)]
                seen = seen[(seen > own - window) | (window == 0)]
                k, v = self.keys[b][:, seen, head // (HEADS // KV_HEADS)].astype(np.float64)
                token = self.starts[b] + n
                score = k @ self.q[token, head].astype(np.float64) * DIM**-0.5
                weight = np.exp(score - score.max())
                out[token, head] = weight @ v / weight.sum()
        return out


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("window", [0, 1, 19])
@pytest.mark.parametrize("name", BOTH)
def test_tokens_see_the_keys_that_they_are_to_see(name: str, window: int, causal: int) -> None:
    prompts = Prompts((33, 50), (0, 3), (1, 1), (16, 16), (7, 40))
    y = prompts.attend(name, window, causal)
    assert not prompts.faults
    # Weights and the result are rounded to f16; values are below 5.
    error = np.abs(y - prompts.reference(window, causal))
    assert error.max() < 2 * 5 * F16_STEP


@pytest.mark.parametrize("number", [-1, 5])
@pytest.mark.parametrize("name", BOTH)
def test_a_page_outside_the_cache_is_a_fault_and_gives_zeros(name: str, number: int) -> None:
    prompts = Prompts((4, 40))
    prompts.k[:] = prompts.v[:] = 1.0
    prompts.table[0, :] = number
    y = prompts.attend(name, 0, 1)
    assert prompts.faults == [f"{name}: page number outside the cache"]
    np.testing.assert_array_equal(y, np.zeros_like(y))


@pytest.mark.parametrize("name", BOTH)
def test_more_keys_than_the_table_has_pages_for_are_a_fault_and_not_read(name: str) -> None:
    prompts = Prompts((4, 40))
    prompts.k[:] = prompts.v[:] = 1.0
    prompts.table = prompts.table[:, :-1]
    y = prompts.attend(name, 0, 1)
    assert prompts.faults == [f"{name}: more keys than there are pages for"]
    assert np.isfinite(y).all()


@pytest.mark.parametrize("name", BOTH)
def test_a_nan_before_the_window_is_in_no_promise(name: str) -> None:
    """Keys are read from a multiple of BK on: that one is in the result is why nothing else is
    said."""
    prompts = Prompts((1, 40))
    prompts.v[prompts.table[0, 2], :, 0] = np.nan  # key 32; the window begins at 36
    assert np.isnan(prompts.attend(name, 4, 1)).all()
    assert "those before a window as well" in families()[name].special
