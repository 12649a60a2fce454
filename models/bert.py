"""BERT (Devlin et al., arXiv:1810.04805) as a graph that makes embeddings of sentences.

Rows of tokens go through layers of attention and an MLP by the exact GELU, each with a residual and
a LayerNorm behind it; the mean of the real tokens' rows, of length 1, is the sentence's embedding
(Reimers and Gurevych, arXiv:1908.10084). Weights have the names that Hugging Face gives them, such
as `encoder.layer.0.attention.self.query.weight`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..ir.graph import Graph, GraphBuilder
from ..ir.graph.array import Array
from ..ir.graph.composites.activations import gelu
from ..ir.graph.composites.attention import attention_paged
from ..ir.graph.composites.normalization import layer_norm
from ..ir.graph.functions import iota, maximum, sqrt, where
from .errors import ModelError, UnknownArchitectureError
from .weights import Weights

_SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "mlp": "intermediate_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "types": "type_vocab_size",
}
# What would have to be computed otherwise, and the value by which it is not.
_PLAIN = {"hidden_act": "gelu", "position_embedding_type": "absolute"}
_TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
_PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_LEAST = 1e-12  # of a norm that is divided by


@dataclass(frozen=True, slots=True)
class BertConfig:
    """Sizes in elements. positions: most tokens of a sentence; types: kinds of tokens, of which the
    first is used. Raises ModelError."""

    layers: int
    hidden: int
    heads: int
    mlp: int
    vocabulary: int
    positions: int
    types: int = 2
    eps: float = 1e-12

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ModelError(field.name, "a number above 0", repr(value))
        if self.hidden % self.heads:
            raise ModelError("hidden", f"a multiple of {self.heads} heads", str(self.hidden))

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> BertConfig:
        """From what `config.json` of a checkpoint holds. Raises UnknownArchitectureError for one
        that is no BERT, ModelError for keys that are missing or ask for what is not computed."""
        if config.get("model_type") != "bert":
            raise UnknownArchitectureError(config.get("model_type"), ("bert",))
        for key, expected in _PLAIN.items():
            if config.get(key, expected) != expected:
                raise ModelError(key, repr(expected), repr(config[key]))
        for key in _SIZES.values():
            if type(config.get(key)) is not int:
                raise ModelError(key, "an integer", repr(config.get(key)))
        eps = config.get("layer_norm_eps", 1e-12)
        if not isinstance(eps, (int, float)):
            raise ModelError("layer_norm_eps", "a number", repr(eps))
        return cls(**{name: config[key] for name, key in _SIZES.items()}, eps=float(eps))


def encoder_graph(
    config: BertConfig,
    batch: int,
    length: int,
    page: int = 16,
    *,
    forms: Mapping[str, str] | None = None,
) -> Graph:
    """Embeddings of `batch` sentences of up to `length` tokens, a multiple of `page`.

    Inputs: `tokens` i32[batch, length], of which sentence b has the first `lengths`[b], i32[batch],
    from 0 to `length`; the others may be any token. Output: `embedding` f32[batch, hidden], of
    length 1, or zeros of a sentence without tokens. Computed in f32.

    forms: the element type (f32, f16, bf16) or block format of each weight; without them, all are
    f32. Raises ModelError.
    """
    if batch <= 0:
        raise ModelError("batch", "a sentence at least", str(batch))
    if page <= 0 or not 0 < length <= config.positions or length % page:
        expected = f"a multiple of the page, {page}, up to {config.positions}"
        raise ModelError("length", expected, str(length))
    return _Encoder(config, batch, length, page, forms).graph()


def weight_names(config: BertConfig) -> list[str]:
    """The weights that a checkpoint has to bring."""
    names = [f"embeddings.{table}.weight" for table in _TABLES]
    dense = ["embeddings.LayerNorm"]
    for n in range(config.layers):
        dense += [f"encoder.layer.{n}.{part}" for part in _PARTS]
    return names + [f"{name}.{kind}" for name in dense for kind in ("weight", "bias")]


class _Encoder:
    def __init__(
        self,
        config: BertConfig,
        batch: int,
        length: int,
        page: int,
        forms: Mapping[str, str] | None,
    ) -> None:
        self.config, self.batch, self.length, self.page = config, batch, length, page
        self.g = g = GraphBuilder("encoder")
        self.weights = Weights(g, forms or dict.fromkeys(weight_names(config), "f32"))
        self.tokens = g.input("tokens", "i32", (batch, length))
        self.lengths = g.input("lengths", "i32", (batch,))
        pages = length // page
        self.table = g.literal(np.arange(batch * pages).reshape(batch, pages), "i32")
        self.starts = g.literal(np.arange(batch + 1) * length, "i32")

    def graph(self) -> Graph:
        x = self._norm("embeddings.LayerNorm", self._embedded())
        for n in range(self.config.layers):
            name = f"encoder.layer.{n}"
            attended = self._linear(self._attention(x, name), f"{name}.attention.output.dense")
            x = self._norm(f"{name}.attention.output.LayerNorm", attended + x)
            inner = self._linear(x, f"{name}.intermediate.dense", self.config.mlp)
            inner = gelu(inner, approximate="none")
            x = self._norm(
                f"{name}.output.LayerNorm", self._linear(inner, f"{name}.output.dense") + x
            )
        self.g.output("embedding", self._pooled(x))
        return self.g.build()

    def _embedded(self) -> Array:
        """Rows of tokens, of their places and of the first type, [batch * length, hidden]."""
        config, rows = self.config, self.batch * self.length
        names = [f"embeddings.{table}.weight" for table in _TABLES]
        counts = config.vocabulary, config.positions, config.types
        first = self.g.literal([0], "i32")
        places = self.tokens.reshape(rows), iota(self.tokens, (self.length,), 0), first
        words, positions, kind = (
            self.weights.rows(name, at, count, config.hidden, "f32")
            for name, at, count in zip(names, places, counts, strict=True)
        )
        words = words.reshape(self.batch, self.length, config.hidden)
        return (words + positions + kind).reshape(rows, config.hidden)

    def _attention(self, x: Array, name: str) -> Array:
        """Heads side by side. Keys and values of the batch lie in pages, one sentence behind the
        other; rows behind a sentence see its keys, too, and nothing looks at what they become."""
        heads, head, rows = self.config.heads, self.config.head, self.batch * self.length
        q, k, v = (
            self._linear(x, f"{name}.attention.self.{kind}").reshape(rows, heads, head)
            for kind in ("query", "key", "value")
        )
        paged = (rows // self.page, self.page, heads, head)
        k, v = (values.reshape(*paged).transpose(0, 2, 1, 3) for values in (k, v))
        scale = head**-0.5
        found = attention_paged(
            q, k, v, self.table, self.lengths, self.starts, scale=scale, causal=False
        )
        attended: Array = found.reshape(rows, self.config.hidden)
        return attended

    def _pooled(self, x: Array) -> Array:
        """The mean of each sentence's rows, at length 1."""
        shape = (self.batch, self.length, self.config.hidden)
        count = self.lengths.reshape(self.batch, 1)
        real = iota(x, (self.batch, self.length), 1) < count
        total = where(real[..., None], x.reshape(*shape), 0.0).sum(1)
        mean = total / maximum(count, 1).cast("f32")
        return mean / maximum(sqrt((mean * mean).sum(-1, keepdims=True)), _LEAST)

    def _linear(self, x: Array, name: str, outputs: int = 0) -> Array:
        return self.weights.linear(x, name, outputs or self.config.hidden)

    def _norm(self, name: str, x: Array) -> Array:
        kinds = ("weight", "bias")
        terms = [self.weights.plain(f"{name}.{kind}", self.config.hidden) for kind in kinds]
        normed: Array = layer_norm(x, *terms, eps=self.config.eps)
        return normed
