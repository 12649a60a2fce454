"""The sizes of a Llama come from the metadata of its GGUF file, or a refusal does."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.models.errors import ModelError, UnknownArchitectureError
from gristmill.models.llama import LlamaConfig

METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 3,
    "llama.context_length": 128,
    "llama.embedding_length": 60,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 6,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "llama.rope.dimension_count": 8,
    "llama.rope.freq_base": 500.0,
    "llama.vocab_size": 77,
}


def test_sizes_are_those_of_the_metadata() -> None:
    config = LlamaConfig.from_metadata(METADATA, cache="f16")
    assert config == LlamaConfig(
        layers=3,
        hidden=60,
        heads=6,
        kv_heads=2,
        head=10,
        mlp=96,
        vocabulary=77,
        trained=128,
        eps=1e-6,
        rope_base=500.0,
        rope_width=8,
        layout="pairs",
        compute="f32",
        cache="f16",
    )


def test_what_metadata_leaves_out_is_as_the_first_llamas_had_it() -> None:
    optional = ("attention.head_count_kv", "rope.dimension_count", "rope.freq_base", "vocab_size")
    left = {k: v for k, v in METADATA.items() if k.removeprefix("llama.") not in optional}
    config = LlamaConfig.from_metadata({**left, "tokenizer.ggml.tokens": ["a", "b"]})
    assert (config.kv_heads, config.rope_width, config.rope_base) == (6, 10, 10_000.0)
    assert config.vocabulary == 2


@pytest.mark.parametrize("family", ["mamba", None])
def test_another_architecture_is_refused_by_its_name(family: str | None) -> None:
    with pytest.raises(UnknownArchitectureError) as error:
        LlamaConfig.from_metadata({**METADATA, "general.architecture": family})
    assert f"{family!r}; there are graphs of 'llama'" in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("block_count", None, "llama.block_count: expected a number, got None"),
        ("block_count", 2.5, "an integer"),
        ("rope.scaling.type", "yarn", "expected 'none', got 'yarn'"),
        ("expert_count", 8, "expected 0, got 8"),
        ("attention.value_length", 12, "expected 10, got 12"),
        ("attention.head_count", [6, 6, 4], "a number"),
        ("attention.head_count_kv", 4, "multiples of 4"),
        ("attention.head_count_kv", 0, "above 0"),
        ("rope.dimension_count", 12, "an even number up to 10"),
        ("attention.layer_norm_rms_epsilon", float("nan"), "above 0"),
    ],
)
def test_metadata_of_another_computation_is_refused(key: str, value: Any, words: str) -> None:
    with pytest.raises(ModelError) as error:
        LlamaConfig.from_metadata({**METADATA, f"llama.{key}": value})
    assert words in str(error.value)


def test_a_type_that_nothing_is_computed_in_is_refused() -> None:
    with pytest.raises(ModelError, match="cache: expected one of f32, f16, bf16, got 'f8e4m3'"):
        LlamaConfig.from_metadata(METADATA, cache="f8e4m3")
