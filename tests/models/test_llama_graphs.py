"""Graphs of a Llama beside the family in plain numpy, over several steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from gguf import quants

from gristmill.ir.graph import Graph
from gristmill.ir.graph.core import Origin
from gristmill.ir.graph.oracle import DECLARED, WIDE, GraphFault, evaluate
from gristmill.ir.graph.oracle.precision import Precision
from gristmill.models.errors import ModelError
from gristmill.models.llama import LlamaConfig, decode_graph, prefill_graph
from model_references import Llama, LlamaSizes

CONFIG = LlamaConfig(
    layers=2,
    hidden=64,
    heads=4,
    kv_heads=2,
    head=16,
    mlp=96,
    vocabulary=50,
    trained=64,
    eps=1e-5,
    rope_base=500.0,
    rope_width=16,
)
SIZES = LlamaSizes(layers=2, heads=4, kv_heads=2, head=16, eps=1e-5, base=500.0)
CONTEXT, BUCKET = 24, 8
# As checkpoints are packed: the table of tokens finer than the rest, norms plain.
FORMS = {"plain": ("f32", "f32"), "packed": ("q8_0", "q4_1"), "half": ("f16", "f16")}


class Checkpoint:
    """Random weights: as a checkpoint holds them, their forms, and what they mean."""

    def __init__(self, rng: np.random.Generator, table: str, other: str, head: str = "") -> None:
        self.stored: dict[str, np.ndarray] = {}
        self.forms: dict[str, str] = {}
        self.meant: dict[str, np.ndarray] = {}
        c = CONFIG
        q, kv = c.heads * c.head, c.kv_heads * c.head
        shapes = {"attn_q": (q, c.hidden), "attn_k": (kv, c.hidden), "attn_v": (kv, c.hidden)}
        shapes |= {"attn_output": (c.hidden, q), "ffn_down": (c.hidden, c.mlp)}
        shapes |= {"ffn_gate": (c.mlp, c.hidden), "ffn_up": (c.mlp, c.hidden)}
        self._add("token_embd.weight", table, rng.standard_normal((c.vocabulary, c.hidden)))
        self._add("output_norm.weight", "f32", rng.uniform(0.5, 2, c.hidden))
        if head:
            self._add("output.weight", head, rng.standard_normal((c.vocabulary, c.hidden)))
        for n in range(c.layers):
            for name in ("attn_norm", "ffn_norm"):
                self._add(f"blk.{n}.{name}.weight", "f32", rng.uniform(0.5, 2, c.hidden))
            for name, shape in shapes.items():
                self._add(f"blk.{n}.{name}.weight", other, rng.standard_normal(shape) / 8)

    def _add(self, name: str, form: str, values: np.ndarray) -> None:
        self.forms[name] = form
        if form in ("f32", "f16"):
            self.stored[name] = values.astype(
                np.dtype(f"f{form[1:]}".replace("32", "4").replace("16", "2"))
            )
            self.meant[name] = self.stored[name].astype(np.float64)
        else:
            kind = Kind[form.upper()]
            self.stored[name] = quants.quantize(values.astype(np.float32), kind)
            self.meant[name] = quants.dequantize(self.stored[name], kind).astype(np.float64)


class Engine:
    """Steps of both graphs by the oracle, with the states between them."""

    def __init__(
        self, checkpoint: Checkpoint, precision: Precision, config: LlamaConfig = CONFIG
    ) -> None:
        self.precision, self.weights = precision, checkpoint.stored
        args = config, checkpoint.forms
        self.prefill = prefill_graph(*args, BUCKET, CONTEXT, 4, reserve=BUCKET, logits=True)
        self.decode = decode_graph(*args, CONTEXT, 4, reserve=BUCKET, logits=True)
        self.states: dict[str, np.ndarray] = {}

    def step(self, graph: Graph, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """The logits of a step."""
        found = evaluate(graph, {**self.weights, **self.states, **given}, self.precision)
        self.states = found.states
        np.testing.assert_array_equal(found.outputs["token"], found.states["token"])
        assert found.outputs["token"] == found.outputs["logits"].argmax()
        return found.outputs["logits"][0]

    def prompt(self, tokens: list[int], rng: np.random.Generator) -> np.ndarray:
        """One bucket, filled up with whatever."""
        row = rng.integers(0, CONFIG.vocabulary, BUCKET).astype(np.int32)
        row[: len(tokens)] = tokens
        return self.step(self.prefill, {"tokens": row, "count": np.int32([len(tokens)])})


def near(found: np.ndarray, wanted: np.ndarray, precision: Precision) -> None:
    # Logits are sums of 64 products of numbers about 1. Angles are products with rates in f32.
    error = 1e-5 if precision is WIDE else 1e-3
    np.testing.assert_allclose(found, wanted, rtol=0, atol=error)


@pytest.mark.parametrize("precision", [DECLARED, WIDE])
@pytest.mark.parametrize("form", FORMS)
def test_a_prompt_in_two_steps_and_tokens_after_it_are_the_whole_at_once(
    form: str, precision: Precision, rng: np.random.Generator
) -> None:
    checkpoint = Checkpoint(rng, *FORMS[form], head="q8_0" if form == "packed" else "")
    engine = Engine(checkpoint, precision)
    tokens = [int(n) for n in rng.integers(0, CONFIG.vocabulary, 11)]
    found = [engine.prompt(tokens[:4], rng), engine.prompt(tokens[4:], rng)]
    while len(tokens) < 16:
        tokens.append(int(engine.states["token"][0]))
        found.append(engine.step(engine.decode, {}))
    wanted = Llama(SIZES, checkpoint.meant).run(tokens)
    assert engine.states["position"] == len(tokens)
    near(np.array(found), wanted[[3, *range(10, 16)]], precision)


def test_a_context_is_filled_to_its_end_and_no_further(rng: np.random.Generator) -> None:
    """The rest of the last bucket goes into rows behind the context."""
    checkpoint = Checkpoint(rng, "f32", "f32")
    engine = Engine(checkpoint, WIDE)
    tokens = [int(n) for n in rng.integers(0, CONFIG.vocabulary, CONTEXT)]
    for first in range(0, 16, 8):
        engine.prompt(tokens[first : first + 8], rng)
    engine.prompt(tokens[16:23], rng)
    found = engine.prompt(tokens[23:], rng)
    near(found, Llama(SIZES, checkpoint.meant).run(tokens)[-1], WIDE)
    engine.prompt([1] * 8, rng)
    with pytest.raises(GraphFault):
        engine.step(engine.decode, {})


def test_a_cache_of_halves_rounds_keys_and_values_alone(rng: np.random.Generator) -> None:
    checkpoint = Checkpoint(rng, "f32", "f32")
    tokens = [int(n) for n in rng.integers(0, CONFIG.vocabulary, 8)]
    found = {}
    for cache in ("f32", "f16"):
        engine = Engine(checkpoint, DECLARED, replace(CONFIG, cache=cache))
        engine.prompt(tokens[:7], rng)
        engine.states["token"] = np.int32(tokens[7:])
        found[cache] = engine.step(engine.decode, {})
    assert engine.states["cache.k.0"].dtype == np.float16
    off = np.abs(found["f16"] - found["f32"]).max()
    assert 1e-6 < off < 0.1, off


def test_both_graphs_have_the_same_states_and_weights(rng: np.random.Generator) -> None:
    engine = Engine(Checkpoint(rng, "q8_0", "q4_1"), DECLARED)

    def shared(graph: Graph) -> dict[str, str]:
        kinds = Origin.STATE, Origin.CONSTANT
        sources = [s for kind in kinds for s in graph.of(kind) if s.data is None]
        return {s.name: f"{s.origin.value} {s.tensor.type}" for s in sources}

    assert shared(engine.prefill) == shared(engine.decode)
    assert shared(engine.decode)["cache.v.1"] == "state f32[8,2,4,16]"
    for graph in (engine.prefill, engine.decode):
        names = {s.tensor.id: s.name for s in graph.of(Origin.STATE)}
        donated = {names[c.state.id] for c in graph.commits if c.donates}
        assert donated == {f"cache.{kind}.{n}" for kind in "kv" for n in range(2)}
        assert len(graph.commits) == len(names)
    assert not list(engine.decode.of(Origin.INPUT))


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a weight that is missing": ({"forms": {"blk.1.ffn_up.weight": None}}, "blk.1.ffn_up.weight"),
    "a weight that is not of the family": ({"forms": {"rope_freqs.weight": "f32"}}, "rope_freqs"),
    "an unknown form": ({"forms": {"token_embd.weight": "q9_9"}}, "'q9_9'"),
    "a packed norm": ({"forms": {"output_norm.weight": "q8_0"}}, "q8_0"),
    "blocks that do not fit": ({"forms": {"blk.0.attn_q.weight": "q4_k"}}, "blocks of 256"),
    "more context than was trained": ({"context": 65}, "1 to 64"),
    "more tokens than rows": ({"tokens": 80}, "rows of the cache"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_no_graph_is_made_of_is_refused_in_words(name: str, rng: np.random.Generator) -> None:
    change, words = BAD[name]
    forms: dict[str, Any] = {**Checkpoint(rng, "f32", "f32").forms, **change.get("forms", {})}
    forms = {key: form for key, form in forms.items() if form}
    with pytest.raises(ModelError) as error:
        prefill_graph(CONFIG, forms, change.get("tokens", 8), change.get("context", 24), 4)
    assert words in str(error.value)
