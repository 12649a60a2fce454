"""Composites beside what the field's papers and checkpoints mean by their names, in plain numpy."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from graph_composites import close, wide
from gristmill.ir.graph import OPS, GraphBuilder, GraphTypeError
from gristmill.ir.graph.oracle import GraphFault, evaluate
from gristmill.ir.quantized import BLOCKS, decode


def test_softmax_sums_to_one_and_its_logarithm_is_log_softmax(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 4, 5)) * 30
    (found,) = wide("softmax", x, axis=1)
    e = np.exp(x - x.max(1, keepdims=True))
    close(found, e / e.sum(1, keepdims=True))
    close(wide("log_softmax", x, axis=1)[0], np.log(e / e.sum(1, keepdims=True)))


def test_activations(rng: np.random.Generator) -> None:
    x = rng.standard_normal(50) * 4
    sigma = 1 / (1 + np.exp(-x))
    close(wide("sigmoid", x)[0], sigma)
    close(wide("silu", x)[0], x * sigma)
    normal = np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])
    close(wide("gelu", x)[0], x * normal)
    near = wide("gelu", x, approximate="tanh")[0]
    assert 1e-6 < np.abs(near - x * normal).max() < 2e-3


def test_norms(rng: np.random.Generator) -> None:
    x, r = rng.standard_normal((2, 3, 8))
    w, b = rng.standard_normal((2, 8))
    rms = w * x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1)
    close(wide("rms_norm", x, w, eps=0.1)[0], rms)
    both = x + r
    normed, total = wide("add_rms_norm", x, r, w, eps=0.1)
    close(total, both)
    close(normed, w * both / np.sqrt((both**2).mean(-1, keepdims=True) + 0.1))
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1)
    close(wide("layer_norm", x, w, b, eps=0.1)[0], scaled * w + b)


def test_groups_of_channels_are_normed_as_one(rng: np.random.Generator) -> None:
    x, w, b = rng.standard_normal((2, 6, 5)), *rng.standard_normal((2, 6))
    (found,) = wide("group_norm", x, w, b, groups=3, eps=0.1)
    for image in range(2):
        for channel in range(6):
            group = x[image, channel // 2 * 2 : channel // 2 * 2 + 2]
            row = (x[image, channel] - group.mean()) / np.sqrt(group.var() + 0.1)
            close(found[image, channel], row * w[channel] + b[channel])


@pytest.mark.parametrize("layout", ["halves", "pairs"])
def test_a_pair_of_columns_turns_by_its_angle(layout: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 2, 10))
    positions = np.int32([0, 7, 1000])
    attrs = {"base": 500.0, "width": 8, "layout": layout}
    (found,) = wide("rotary", x, positions, **attrs)
    for pair in range(4):
        a, b = (pair, pair + 4) if layout == "halves" else (2 * pair, 2 * pair + 1)
        # Angles are products in f32 at least: at 1,000 radians an error of 3e-5.
        turn = np.exp(1j * positions * 500.0 ** (-pair / 4))[:, None]
        wanted = (x[..., a] + 1j * x[..., b]) * turn
        np.testing.assert_allclose(found[..., a] + 1j * found[..., b], wanted, atol=3e-4)
    np.testing.assert_array_equal(found[..., 8:], x[..., 8:])


def test_no_rows_and_no_columns_are_computed_like_others() -> None:
    assert wide("linear", np.zeros((2, 3, 0)), np.zeros((5, 0)))[0].tolist() == [[[0] * 5] * 3] * 2
    norm = wide("group_norm", np.zeros((0, 4, 2)), np.ones(4), np.ones(4), groups=2, eps=0.1)[0]
    assert norm.shape == (0, 4, 2)
    nothing = np.zeros((0, 2, 4)), np.zeros((1, 1, 1, 4)), np.zeros((1, 1, 1, 4))
    pages, lengths = np.zeros((0, 1), np.int32), np.zeros(0, np.int32)
    assert wide("attention_decode", *nothing, pages, lengths, scale=1.0)[0].shape == (0, 2, 4)


def test_composites_of_halves_round_once(rng: np.random.Generator) -> None:
    """In declared precision an f16 softmax is the f64 one to half a unit and f32's error."""
    x = rng.standard_normal((20, 16)).astype(np.float16)
    g = GraphBuilder("halves")
    g.output("y", g.op("softmax", g.input("x", "f16", x.shape), axis=1))
    found = evaluate(g.build(), {"x": x}).outputs["y"]
    (exact,) = wide("softmax", x.astype(np.float64), axis=1)
    unit = np.spacing(exact.astype(np.float16)).astype(np.float64)
    assert (np.abs(found.astype(np.float64) - exact) <= 0.501 * unit + 1e-6 * exact).all()


def test_new_rows_go_into_their_places(rng: np.random.Generator) -> None:
    cache, values = rng.standard_normal((4, 2, 3, 5)), rng.standard_normal((3, 2, 5))
    table, sequences, positions = (
        np.int32([[3, 0], [1, 2]]),
        np.int32([1, 0, 1]),
        np.int32([4, 2, 0]),
    )
    (found,) = wide("kv_append", cache, values, table, sequences, positions)
    wanted = cache.copy()
    wanted[2, :, 1], wanted[3, :, 2], wanted[1, :, 0] = values
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("page", "sequence", "position"),
    [(0, 0, 6), (0, 0, -1), (0, 2, 0), (0, -1, 0), (4, 0, 0), (-1, 0, 0), (2**31 - 1, 0, 5)],
)
def test_a_row_outside_of_the_table_or_the_cache_is_a_fault(
    page: int, sequence: int, position: int
) -> None:
    arrays = np.zeros((4, 2, 3, 5)), np.ones((1, 2, 5)), np.full((2, 2), page, np.int32)
    with pytest.raises(GraphFault):
        wide("kv_append", *arrays, np.int32([sequence]), np.int32([position]))


def test_products_with_weights(rng: np.random.Generator) -> None:
    x, (gate, up) = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 16, 8))
    down, bias = rng.standard_normal((8, 16)), rng.standard_normal(16)
    close(wide("linear", x, gate)[0], x @ gate.T)
    close(wide("linear", x, gate, bias)[0], x @ gate.T + bias)
    g = x @ gate.T
    close(wide("gated_mlp", x, gate, up, down)[0], (g / (1 + np.exp(-g)) * (x @ up.T)) @ down.T)


@pytest.mark.parametrize("name", ["q4_0", "q4_1", "q8_0", "q6_k"])
def test_packed_weights_are_what_their_format_says(name: str, rng: np.random.Generator) -> None:
    form = BLOCKS[name]
    packed = rng.integers(0, 256, (5, 2 * form.bytes), dtype=np.uint8)
    weight = decode(packed, form).astype(np.float64)
    packed[~np.isfinite(weight).all(1)] = 0
    weight = decode(packed, form).astype(np.float64)
    x = rng.standard_normal((2, 2 * form.block))
    (found,) = wide("quantized_linear", x, packed, format=name)
    np.testing.assert_allclose(found, x @ weight.T, rtol=1e-6, atol=1e-6 * np.abs(weight).max())


def kept(row: np.ndarray, settings: np.ndarray) -> np.ndarray:
    """Which logits of a row may be drawn, one rule after the other."""
    temperature, k, share, least_share = (float(n) for n in settings)
    order = np.argsort(-row, kind="stable")
    least = row[order[0]] if temperature == 0 else -np.inf
    if temperature:
        if 0 < k < len(row):
            least = row[order[int(k) - 1]]
        among = row[order][row[order] >= least]
        mass = np.exp((among - among[0]) / temperature)
        sums = np.cumsum(mass) / mass.sum()
        if share < 1:
            least = max(least, among[np.argmax(sums >= share)])
        if least_share > 0:
            top = row[order[0]]
            least = max(least, min(top, top + temperature * np.log(least_share)))
    return row >= least


SETTINGS = np.float32(
    [
        [0, 5, 0.5, 0.1],
        [1, 0, 1, 0],
        [0.7, 4, 1, 0],
        [1.3, 0, 0.6, 0],
        [1, 0, 1, 0.2],
        [0.9, 9, 0.8, 0.05],
        [1, 3, 0, 0],
        [2, 0, 1, 3.0],
    ]
)


def test_a_token_is_drawn_among_those_that_are_kept(rng: np.random.Generator) -> None:
    """Draws of many states: none but the kept ones, each kept one of some weight, greedy ones at a
    temperature of 0."""
    rows, columns = len(SETTINGS), 11
    logits = (rng.standard_normal((rows, columns)) * 2).astype(np.float32)
    logits[:, 4] = logits[:, 1]  # equal ones stay together
    logits[1, 2], logits[2, 3] = np.nan, -np.inf
    counts = np.zeros((rows, columns))
    draws = 300
    for n in range(draws):
        state = np.uint32([n, 5, 6, 7])
        (found,) = wide("sample", logits, SETTINGS, state)
        counts[np.arange(rows), found] += 1
    for row in range(rows):
        clean = np.where(np.isfinite(logits[row]), logits[row], -np.inf).astype(np.float64)
        allowed = kept(clean, SETTINGS[row]) & np.isfinite(clean)
        assert not counts[row][~allowed].any(), row
        if SETTINGS[row, 0] == 0:
            assert counts[row].argmax() == clean.argmax()
            continue
        chance = np.where(allowed, np.exp((clean - clean.max()) / SETTINGS[row, 0]), 0)
        chance /= chance.sum()
        # Five standard deviations of a binomial share.
        bound = 5 * np.sqrt(chance * (1 - chance) / draws) + 1e-9
        assert (np.abs(counts[row] / draws - chance) <= bound).all(), row


@pytest.mark.parametrize("temperature", [0.0, 1e-31, 1.0, np.inf])
def test_what_is_no_number_is_never_drawn(temperature: float) -> None:
    inf, nan = np.inf, np.nan
    logits = np.float32([[-inf, -inf], [nan, nan], [inf, 1], [nan, -inf]])
    settings = np.float32([[temperature, 0, 1, 0]] * 4)
    (found,) = wide("sample", logits, settings, np.uint32([1, 2, 3, 4]))
    assert found.tolist() == [-1, -1, 1, -1]


def test_the_greatest_logit_is_greedy() -> None:
    logits = np.float32([[1, 3, 3], [np.nan, -1, -2]])
    assert wide("greedy", logits)[0].tolist() == [1, 1]


BAD = {
    "rms_norm": (([3, 8], [7]), {"eps": 0.1}, "8 columns"),
    "group_norm": (([2, 6, 5], [6], [6]), {"eps": 0.1, "groups": 4}, "not 4 equal groups"),
    "rotary": (([3, 2, 8], [4]), {"width": 8}, "a position a token"),
    "attention_prefill": (([4, 5, 8], [7, 2, 8], [7, 2, 8]), {"scale": 1.0}, "unequally"),
    "attention_decode": (
        ([3, 4, 8], [6, 2, 3, 8], [6, 2, 3, 8], [2, 3], [3]),
        {"scale": 1.0},
        "a row of pages",
    ),
    "attention_paged": (
        ([3, 4, 8], [6, 2, 3, 8], [6, 2, 3, 8], [2, 3], [2], [2]),
        {"scale": 1.0},
        "batch + 1 starts",
    ),
    "kv_append": (([2, 2, 3, 4], [3, 2, 5], [1, 2], [3], [3]), {}, "go into"),
    "linear": (([3, 8], [16, 7]), {}, "rows of 8 meet"),
    "sample": (([3, 8], [3, 4], [4]), {}, "the state is u32[4]"),
    "greedy": (([3],), {}, "logits are [rows, columns]"),
    "softmax": (([3],), {"axis": 1}, "axis 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_operands_that_do_not_fit_are_refused_in_words(name: str) -> None:
    shapes, attrs, words = BAD[name]
    g = GraphBuilder("bad")
    inputs = [g.input(f"x{n}", "f32", tuple(shape)) for n, shape in enumerate(shapes)]
    whole = {
        "rotary": [1],
        "attention_decode": [3, 4],
        "attention_paged": [3, 4, 5],
        "kv_append": [2, 3, 4],
    }
    for n in whole.get(name, []):
        inputs[n] = inputs[n].cast("i32")
    with pytest.raises(GraphTypeError) as error:
        g.op(name, *inputs, **attrs)
    assert words in str(error.value)


def test_every_composite_is_held_against_something_here() -> None:
    here = Path(__file__)
    source = here.read_text() + here.with_name("test_graph_attention.py").read_text()
    missing = [name for name, row in OPS.items() if row.composite and f'"{name}"' not in source]
    assert missing == []
