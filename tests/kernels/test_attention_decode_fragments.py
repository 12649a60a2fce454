"""Attention of one token, on fragments and by `mma`: against that of the whole; counts, faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir import interp
from gristmill.ir.lang import KernelFunction
from gristmill.kernels.attention_decode_fragments import attention_decode_fragments
from gristmill.kernels.nv_attention_decode import nv_attention_decode

DIM, PAGE, KV_HEADS = 64, 16, 2
SMALL: dict[str, Any] = {"HEAD_DIM": DIM, "WARPS": 2}
HEADS = {attention_decode_fragments: 16, nv_attention_decode: 8}  # of a workgroup


@pytest.fixture(params=HEADS, ids=lambda kernel: kernel.name, autouse=True)
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> KernelFunction:
    """Every test runs with both kernels."""
    monkeypatch.setattr(Sequences, "kernel", request.param)
    kernel: KernelFunction = request.param
    return kernel


class Sequences:
    """Queries and a paged cache of some sequences, with NaNs in all that no key was written to."""

    kernel: KernelFunction = attention_decode_fragments

    def __init__(self, lengths: list[int], heads: int = 6) -> None:
        rng = np.random.default_rng(7)
        self.lengths, self.heads, self.kv_heads = lengths, heads, KV_HEADS
        self.most = -(-max(lengths) // PAGE)
        pages = self.most * len(lengths) + 3
        self.q = rng.standard_normal((len(lengths), heads, DIM)).astype(np.float16)
        self.k, self.v = np.full((2, pages, KV_HEADS, PAGE, DIM), np.nan, np.float16)
        self.table = rng.permutation(pages)[: self.most * len(lengths)].astype(np.int32)
        self.table = self.table.reshape(len(lengths), self.most)
        self.keys = [rng.standard_normal((2, n, KV_HEADS, DIM)).astype(np.float16) for n in lengths]
        for row, keys in zip(self.table, self.keys, strict=True):
            for n in range(keys.shape[1]):
                place = row[n // PAGE], slice(None), n % PAGE
                self.k[place], self.v[place] = keys[:, n]
        groups = -(-heads // (HEADS[self.kernel] * KV_HEADS))
        self.arrived = np.zeros(len(lengths) * KV_HEADS * groups, np.uint32)

    def attend(
        self, splits: int, window: int = 0, chunk: int | None = None, **constexprs: Any
    ) -> np.ndarray:
        """What the kernel makes of it, in the interpreter."""
        rows, parts = (len(self.lengths), self.heads), max(splits, 1)
        y = np.full((*rows, DIM), 7.0, np.float16)
        partial, stats = np.zeros((*rows, parts, DIM), "f4"), np.zeros((*rows, parts, 2), "f4")
        chunk = -(-self.most // parts) if chunk is None else chunk
        buffers = [self.q, self.k, self.v, self.table, np.array(self.lengths, np.int32)]
        buffers += [np.zeros(0, np.float32), y, partial, stats, self.arrived]
        numbers = [self.heads, self.kv_heads, splits, chunk, window, DIM**-0.5, 0.0, 1.0, 1.0]
        args: list[Any] = [a.reshape(-1) for a in buffers] + numbers
        kernel = self.kernel.trace("x", **{**SMALL, **constexprs})
        each = -(-self.heads // (HEADS[self.kernel] * max(self.kv_heads, 1)))
        report = interp.run(kernel, args, (parts, self.kv_heads * each, len(self.lengths)))
        self.problems = report.problems
        self.faults = [kernel.sites[site] for site in report.faults]
        return y

    def reference(self, window: int = 0) -> np.ndarray:
        """Attention over all keys at once, in f64."""
        out = np.zeros((len(self.lengths), self.heads, DIM))
        for b, keys in enumerate(self.keys):
            k, v = keys[:, -window:].astype(np.float64)
            for head in range(self.heads if keys.shape[1] else 0):
                of = head // (self.heads // KV_HEADS)
                score = k[:, of] @ self.q[b, head].astype(np.float64) * DIM**-0.5
                weight = np.exp(score - score.max())
                out[b, head] = weight @ v[:, of] / weight.sum()
        return out


@pytest.mark.parametrize("window", [0, 1, 21])
@pytest.mark.parametrize("splits", [1, 2, 5])
def test_splits_that_meet_are_attention_of_the_whole(splits: int, window: int) -> None:
    sequences = Sequences([75, 0, 16, 1])
    y = sequences.attend(splits, window)
    assert not sequences.problems
    assert not sequences.faults
    # Weights and results are rounded to f16; values are below 5.
    np.testing.assert_allclose(y, sequences.reference(window), rtol=0, atol=3 * 2.0**-11 * 5)


@pytest.mark.parametrize("heads", [2, 16, 34, 40])
def test_any_number_of_heads_shares_one_of_the_cache(heads: int) -> None:
    sequences = Sequences([75, 20], heads)
    y = sequences.attend(3)
    assert not sequences.problems
    np.testing.assert_allclose(y, sequences.reference(), rtol=0, atol=3 * 2.0**-11 * 5)


def test_a_launch_leaves_what_the_next_one_counts_from() -> None:
    sequences = Sequences([75, 0, 16])
    first = sequences.attend(4)
    assert not sequences.arrived.any()
    np.testing.assert_array_equal(sequences.attend(4), first)


@pytest.mark.parametrize("number", [-1, 8])
def test_a_page_outside_the_cache_is_a_fault_and_not_read(number: int) -> None:
    sequences = Sequences([75])
    sequences.k[:] = sequences.v[:] = 1.0
    sequences.table[0, 2] = number
    sequences.attend(1)
    assert sequences.faults == [f"{sequences.kernel.name}: page number outside the cache"]
    assert not sequences.problems


def test_a_page_that_no_key_is_on_may_be_any_number() -> None:
    sequences = Sequences([75, 20])
    sequences.table[1, 2:] = 10**6
    y = sequences.attend(2)
    assert not sequences.faults
    assert not sequences.problems
    np.testing.assert_allclose(y, sequences.reference(), rtol=0, atol=3 * 2.0**-11 * 5)


@pytest.mark.parametrize(("splits", "chunk"), [(2, 1), (1, 0), (1, -3)])
def test_keys_that_no_split_has_are_a_fault(splits: int, chunk: int) -> None:
    sequences = Sequences([75])
    sequences.attend(splits, chunk=chunk)
    assert sequences.faults == [f"{sequences.kernel.name}: keys of no split"]
    assert not sequences.problems


def test_more_keys_than_the_table_has_pages_for_are_a_fault_and_not_read() -> None:
    sequences = Sequences([75])
    sequences.k[:] = sequences.v[:] = 1.0
    sequences.table = sequences.table[:, :-1]
    y = sequences.attend(1)
    assert sequences.faults == [f"{sequences.kernel.name}: more keys than there are pages for"]
    assert np.isfinite(y).all()


def test_no_place_to_count_in_is_a_fault_and_nothing_is_written() -> None:
    sequences = Sequences([75])
    sequences.arrived = sequences.arrived[:-1]
    y = sequences.attend(2)
    assert sequences.faults == [
        f"{sequences.kernel.name}: partial, stats or arrived without room for all splits"
    ]
    assert not sequences.problems
    assert (y == 7).all()


@pytest.mark.parametrize(("heads", "kv_heads"), [(6, 4), (6, 0)])
def test_heads_that_do_not_share_evenly_are_a_fault(heads: int, kv_heads: int) -> None:
    sequences = Sequences([20], heads)
    sequences.kv_heads = kv_heads
    sequences.attend(1)
    if kv_heads:
        message = f"{sequences.kernel.name}: heads that do not share those of the cache evenly"
        assert message in sequences.faults
    assert not sequences.problems
