"""The graph of a BERT beside the family in plain numpy, sentence by sentence."""

from __future__ import annotations

import numpy as np
import pytest

from gristmill.ir.graph.oracle import DECLARED, WIDE, GraphFault, evaluate
from gristmill.ir.graph.oracle.precision import Precision
from gristmill.models.bert import BertConfig, encoder_graph, weight_names
from gristmill.models.errors import ModelError, UnknownArchitectureError
from model_references import bert_embedding

CONFIG = BertConfig(layers=2, hidden=32, heads=4, mlp=48, vocabulary=40, positions=24, eps=1e-3)
HUGGING_FACE = {
    "model_type": "bert",
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 40,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-3,
    "hidden_act": "gelu",
}


def random_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """By their names, in the shapes that the graph asks for."""
    shapes = {
        source.name: source.tensor.type.shape
        for source in encoder_graph(CONFIG, 1, 8, 4).sources
        if source.name in weight_names(CONFIG)
    }
    assert len(shapes) == len(weight_names(CONFIG)) == 5 + 16 * CONFIG.layers
    return {n: (rng.standard_normal(s) / 3).astype(np.float32) for n, s in shapes.items()}


def embeddings(
    weights: dict[str, np.ndarray],
    sentences: list[list[int]],
    length: int,
    precision: Precision,
    rng: np.random.Generator,
) -> np.ndarray:
    """Of the graph, sentences filled up with whatever."""
    tokens = rng.integers(0, CONFIG.vocabulary, (len(sentences), length)).astype(np.int32)
    for row, sentence in zip(tokens, sentences, strict=True):
        row[: len(sentence)] = sentence
    lengths = np.int32([len(sentence) for sentence in sentences])
    graph = encoder_graph(CONFIG, len(sentences), length, 4)
    given = {**weights, "tokens": tokens, "lengths": lengths}
    return evaluate(graph, given, precision).outputs["embedding"]


@pytest.mark.parametrize(("precision", "error"), [(DECLARED, 1e-5), (WIDE, 1e-7)])
def test_sentences_of_a_batch_are_embedded_as_each_alone(
    precision: Precision, error: float, rng: np.random.Generator
) -> None:
    weights = random_weights(rng)
    sentences = [[int(n) for n in rng.integers(0, 40, size)] for size in (12, 1, 7)]
    found = embeddings(weights, sentences, 12, precision, rng)
    wanted = [bert_embedding(weights, s, CONFIG.layers, CONFIG.heads, 1e-3) for s in sentences]
    # Of length 1; numbers such as eps are written into the graph in f32.
    np.testing.assert_allclose(found, np.array(wanted), rtol=0, atol=error)


def test_a_sentence_without_tokens_is_zeros_and_one_beyond_the_length_a_fault(
    rng: np.random.Generator,
) -> None:
    weights = random_weights(rng)
    found = embeddings(weights, [[], [3, 4]], 8, DECLARED, rng)
    assert not found[0].any()
    np.testing.assert_allclose(np.linalg.norm(found[1]), 1, rtol=1e-6)
    tokens, lengths = np.zeros((1, 8), np.int32), np.int32([9])
    with pytest.raises(GraphFault):
        evaluate(encoder_graph(CONFIG, 1, 8, 4), {**weights, "tokens": tokens, "lengths": lengths})


def test_sizes_come_from_what_the_checkpoint_says() -> None:
    assert BertConfig.from_json(HUGGING_FACE) == CONFIG


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("hidden_act", "relu", "expected 'gelu', got 'relu'"),
        ("position_embedding_type", "relative_key", "'absolute'"),
        ("hidden_size", None, "hidden_size: expected an integer, got None"),
        ("num_attention_heads", 5, "a multiple of 5 heads"),
        ("vocab_size", 0, "vocabulary: expected a number above 0"),
    ],
)
def test_a_checkpoint_that_is_computed_otherwise_is_refused(
    key: str, value: object, words: str
) -> None:
    with pytest.raises(ModelError) as error:
        BertConfig.from_json({**HUGGING_FACE, key: value})
    assert words in str(error.value)


def test_another_family_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownArchitectureError, match="'roberta'; there are graphs of 'bert'"):
        BertConfig.from_json({**HUGGING_FACE, "model_type": "roberta"})


@pytest.mark.parametrize(("batch", "length"), [(0, 8), (1, 10), (1, 28), (1, 0)])
def test_a_batch_or_length_that_no_page_takes_is_refused(batch: int, length: int) -> None:
    with pytest.raises(ModelError, match="expected"):
        encoder_graph(CONFIG, batch, length, 4)
