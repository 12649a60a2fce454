"""Random numbers by Random123's own answers; sampling's edges; a cache's faults."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.kernels.cache_append import cache_append
from gristmill.kernels.philox import philox_words, random_fill
from gristmill.kernels.sampling import sample_threshold, sample_token

# `kat_vectors` of Random123 1.14, "philox4x32 10": counter, key, answer.
KNOWN = (
    ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (" ".join(["ffffffff"] * 4), "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
)


TOLD = {"kv_heads": 1, "head": 4, "page": 2, "row_pages": 1}  # of a cache, as cache_append is


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_known_answers(counter: str, key: str, answer: str) -> None:
    np.testing.assert_array_equal(philox_words(words(counter), words(key)), words(answer))


def test_random_numbers_depend_on_key_and_stream_and_are_what_they_are_called() -> None:
    def filled(state: list[int], kind: str = "uniform") -> np.ndarray:
        y = np.zeros(8192, np.float32)
        k = random_fill.trace("test", KIND=kind)
        run(k, [y, np.array(state, np.uint32), 1.0, 0.0], (8, 1, 1))
        return y

    first = filled([1, 2, 3, 4])
    np.testing.assert_array_equal(first, filled([1, 2, 3, 4]))
    for other in ([0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]):
        assert (filled(other) == first).mean() < 0.01
    assert 0 <= first.min() < 0.01
    assert 0.99 < first.max() < 1
    assert first.mean() == pytest.approx(0.5, abs=0.02)
    bell = filled([1, 2, 3, 4], "normal")
    assert bell.mean() == pytest.approx(0, abs=0.05)
    assert bell.std() == pytest.approx(1, abs=0.05)
    assert (np.abs(bell) < 1).mean() == pytest.approx(0.6827, abs=0.02)


WAYS: tuple[dict[str, int], ...] = ({}, {"MOST": 4, "DIGIT": 3})
ROOMY = {"MOST": 64, "DIGIT": 3}  # room for more than the k greatest


def threshold(
    logits: list[float], *settings: float, ways: tuple[dict[str, int], ...] = WAYS
) -> float:
    """The same by each way of finding it."""
    row, four = np.array([logits], np.float32), np.array(settings, np.float32)
    found = []
    for way in ways:
        least = np.zeros(1, np.float32)
        kernel = sample_threshold.trace("test", BLOCK=32, SUBGROUP=32, **way)
        report = run(kernel, [row, four, least, len(logits)], (1, 1, 1))
        assert not report.problems
        found.append(float(least[0]))
    assert len(set(map(str, found))) == 1, found
    return found[0]


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_more_equal_logits_than_there_is_room_for_are_kept_together(k: int, share: float) -> None:
    """Of nine equal ones, room for four: also where the keys differ in their last bits alone."""
    assert threshold([1.0, *[2.0] * 9, 0.0], 1, k, share, 0) == 2
    near = [float(np.float32(2) - n * np.float32(2.0**-23)) for n in range(9)]
    assert threshold([1.0, *near, 0.0], 1, k, 1, 0) == near[k - 1]


def test_the_threshold_is_what_top_k_top_p_and_min_p_say() -> None:
    logits = [1.0, 3.0, 2.0, 3.0, -1.0]
    assert threshold(logits, 1, 0, 1, 0) == -np.inf
    assert threshold(logits, 1, 1, 1, 0) == 3
    assert threshold(logits, 1, 3, 1, 0) == 2
    assert threshold(logits, 1, 99, 1, 0) == -np.inf
    assert threshold(logits, 1, 0, 0.5, 0) == 3
    assert threshold(logits, 1, 0, 0.9, 0) == 2
    assert threshold(logits, 1, 3, 0.99, 0) == 2
    assert threshold(logits, 1, 0, 1, 0.5) == pytest.approx(3 - np.log(2))
    assert threshold(logits, 0, 0, 1, 0) == 3
    assert threshold([-0.5, -2.0, -1.0], 1, 2, 1, 0) == -1
    assert threshold([np.nan, 2.0, np.nan, 1.0], 1, 2, 1, 0) == 1


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("nans", "k"), [(200, 8), (60, 40), (61, 5)])
def test_a_row_with_fewer_numbers_than_k_keeps_them_all_or_their_share(
    nans: int, k: int, share: float
) -> None:
    """Also where the whole row fits among the candidates, and where it has no number at all."""
    ways = (*WAYS, ROOMY)
    limit = -np.inf if share == 1 else 0.25
    for row in ([0.5, -1.0, 0.25, 0.0, *[np.nan] * nans], [np.nan] * (nans + 4)):
        wanted = limit if row[0] == 0.5 else -np.inf
        assert threshold(row, 1, k, share, 0, ways=ways) == wanted


@pytest.mark.parametrize("settings", [(0, 0, 0), (3, 0, 0), (0, -0.5, 0), (0, 1, 1.5), (2, 0, 1.5)])
def test_the_greatest_logit_is_always_kept(settings: tuple[float, ...]) -> None:
    """At a top-p of nothing and a min-p of more than all: top-k, top-p and min-p."""
    for logits in ([1.0, 3.0, 2.0, 3.0, -1.0], [-2.0, np.nan, -0.5], [-np.inf, -4.0], [0.0]):
        assert threshold(logits, 0.7, *settings) == np.nanmax(logits)
    assert threshold([-np.inf, -np.inf], 0.7, *settings) == -np.inf


def drawn(
    logits: list[float], temperature: float, least: float = -np.inf, rows: int = 1
) -> np.ndarray:
    """Token and flag of each row; the noise of rows differs."""
    tokens, flags = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    settings = np.tile(np.array([temperature, 0, 1, 0], np.float32), (rows, 1))
    state, limits = np.array([5, 0, 0, 0], np.uint32), np.full(rows, least, np.float32)
    whole = np.tile(np.array(logits, np.float32), (rows, 1))
    k = sample_token.trace("test", BLOCK=4)
    run(k, [whole, settings, limits, state, tokens, flags, len(logits)], (rows, 1, 1))
    return np.stack([tokens, flags], -1)


@pytest.mark.parametrize("temperature", [1e-45, 1e-38, 1e-31, 1e-30, 1e-20])
def test_the_least_temperatures_draw_the_greatest_logit_and_not_the_first_column(
    temperature: float,
) -> None:
    """Over a temperature so low, all logits would be infinite alike."""
    for logits in ([1.0, 3.0, 2.0], [-5.0, -1.0, -3e38], [1e30, 2e38, 3e38]):
        wanted = int(np.argmax(logits))
        assert drawn(logits, temperature)[0].tolist() == [wanted, 0]
        assert threshold(logits, temperature, 0, 0.9, 0) == np.float32(logits[wanted])
        assert threshold(logits, temperature, 0, 1, 0.5) == np.float32(logits[wanted])


def test_an_infinite_temperature_draws_every_logit_alike() -> None:
    logits = [0.0, 50.0, 90.0, -np.inf]
    found = np.bincount(drawn(logits, np.inf, rows=900)[:, 0], minlength=4)
    assert (np.abs(found[:3] - 300) <= 4 * np.sqrt(300)).all()
    assert found[3] == 0
    assert threshold(logits, np.inf, 0, 0.5, 0) == 50


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_tokens_come_as_often_as_their_probabilities_say(temperature: float) -> None:
    logits = [0.0, 1.0, 2.0, -np.inf, 0.5]
    found = np.bincount(drawn(logits, temperature, rows=1000)[:, 0], minlength=5)
    wanted = np.exp(np.array(logits) / temperature)
    wanted *= 1000 / wanted.sum()
    # Within four standard deviations of a count.
    assert (np.abs(found - wanted) <= 4 * np.sqrt(wanted)).all()


def test_what_is_no_number_is_flagged_and_never_drawn() -> None:
    for logits, temperature, least, wanted in (
        ([1.0, 2.0, 2.0], 0, -np.inf, [1, 0]),
        ([1.0, np.nan, 2.0], 0, -np.inf, [2, 1]),
        ([1.0, np.inf, 2.0], 0, -np.inf, [2, 1]),
        ([-np.inf, -np.inf], 1, -np.inf, [-1, 1]),
        ([1.0, 2.0], 1, 3.0, [-1, 1]),
    ):
        assert drawn(logits, temperature, least)[0].tolist() == wanted


@pytest.mark.parametrize(
    ("sequence", "position", "page", "message"),
    [
        (2, 0, 1, "sequence or position outside the block table"),
        (-1, 0, 1, "sequence or position outside the block table"),
        (0, 8, 1, "sequence or position outside the block table"),
        (0, -1, 1, "sequence or position outside the block table"),
        (0, 2, 3, "page outside the cache"),
        (0, 2, -1, "page outside the cache"),
    ],
)
def test_a_token_without_a_place_in_the_cache_is_a_fault_and_changes_nothing(
    sequence: int, position: int, page: int, message: str
) -> None:
    caches = [np.full((3, 1, 4, 2), 7, np.float16) for _ in range(2)]
    rows = np.ones((1, 1, 2), np.float16)
    table = np.array([[page, 0], [1, 2]], np.int32)
    places = [np.array([sequence], np.int32), np.array([position], np.int32)]
    k = cache_append.trace("test")
    report = run(k, [rows, rows, *caches, table, *places, 1, 2, 4, 2, 1.0, 1.0], (1, 1, 1))
    assert not report.problems
    assert [k.sites[n] for n in report.faults] == [f"cache_append: {message}"]
    assert all((cache == 7).all() for cache in caches)


@pytest.mark.parametrize("short", ["v", "k_cache", "v_cache"])
def test_keys_and_values_of_different_sizes_are_a_fault_and_change_nothing(short: str) -> None:
    sizes = {"k": (2, 1, 8), "v": (2, 1, 8), "k_cache": (2, 1, 2, 8), "v_cache": (2, 1, 2, 8)}
    sizes[short] = (1, *sizes[short][1:])
    arrays = [np.full(shape, 7, np.float16) for shape in sizes.values()]
    table, tokens = np.array([[1]], np.int32), np.array([0, 0], np.int32)
    k = cache_append.trace("test", VEC=8)
    positions = np.array([0, 1], np.int32)
    report = run(k, [*arrays, table, tokens, positions, 1, 8, 2, 1, 2.0, 2.0], (1, 1, 1))
    assert not report.problems
    message = "cache_append: k and v, or their caches, differ in size"
    assert [k.sites[n] for n in report.faults] == [message]
    assert all((array == 7).all() for array in arrays)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"kv_heads": 0}, {"head": 0}, {"page": 0}, {"row_pages": 0}),
        *({"kv_heads": -1, "head": -4}, {"page": -2}, {"head": 3}),
        *({"sequences": 1}, {"positions": 1}, {"positions": 0}, {"sequences": 3, "positions": 3}),
    ],
)
def test_a_cache_of_no_elements_and_tokens_without_positions_are_faults(
    wrong: dict[str, int],
) -> None:
    rows = np.ones((2, 1, 4), np.float16)
    caches = [np.full((3, 1, 2, 4), 7, np.float16) for _ in range(2)]
    lists = [np.zeros(wrong.get(name, 2), np.int32) for name in ("sequences", "positions")]
    lists[1][:2] = [0, 1][: len(lists[1])]
    sizes = [wrong.get(n, usual) for n, usual in TOLD.items()]
    k = cache_append.trace("test")
    table = np.array([[1]], np.int32)
    report = run(k, [rows, rows, *caches, table, *lists, *sizes, 1.0, 1.0], (1, 1, 1))
    assert not report.problems
    assert len(report.faults) == 1
    assert all((cache == 7).all() for cache in caches)


@pytest.mark.parametrize("head", [20, 3])
def test_rows_that_are_not_whole_vectors_go_to_their_places(head: int) -> None:
    """Also where elements and vectors do not come out even, in all and within a head."""
    rows = np.arange(1, 1 + 6 * head, dtype=np.float16).reshape(3, 2, head)
    caches = [np.zeros((2, 2, 4, head), np.float16) for _ in range(2)]
    table, sequences = np.array([[1, 0]], np.int32), np.zeros(3, np.int32)
    positions = np.array([5, 2, 0], np.int32)
    k = cache_append.trace("test", VEC=8)
    places = [table, sequences, positions, 2, head, 4, 2]
    report = run(k, [rows, rows * 2, *caches, *places, 1.0, 1.0], (1, 1, 1))
    assert not report.problems
    assert not report.faults
    wanted = np.zeros_like(caches[0])
    wanted[0, :, 1], wanted[1, :, 2], wanted[1, :, 0] = rows
    np.testing.assert_array_equal(caches[0], wanted)
    np.testing.assert_array_equal(caches[1], wanted * 2)
