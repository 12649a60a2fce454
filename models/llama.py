"""Llama and its likes (Touvron et al., arXiv:2302.13971) as graphs: a prompt, and one token.

Each layer is RMSNorm, attention of grouped heads (Ainslie et al., arXiv:2305.13245) with rotary
positions, and a gated MLP. Weights have the names that GGUF gives them, and lie as it has them:
columns of queries and keys so that neighbours turn together ("pairs").

What goes on from step to step stays on the device, the same in both graphs:

| state | type | is |
|---|---|---|
| `position` | i32[1] | tokens in the cache |
| `token` | i32[1] | the one that comes next |
| `cache.k.N`, `cache.v.N` | [pages, kv_heads, page, head] | keys and values of layer N |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..ir.graph import Graph, GraphBuilder
from ..ir.graph.array import Array
from ..ir.graph.composites.activations import silu
from ..ir.graph.composites.attention import attention_decode, attention_paged
from ..ir.graph.composites.cache import kv_append
from ..ir.graph.composites.normalization import add_rms_norm, rms_norm
from ..ir.graph.composites.rotary import rotary
from ..ir.graph.composites.sampling import greedy
from ..ir.graph.core import Attr
from ..ir.graph.functions import arange, take
from .errors import ModelError
from .llama_config import LlamaConfig
from .weights import Weights

__all__ = ["LlamaConfig", "decode_graph", "prefill_graph"]

Attend = Callable[[Array, Array, Array], Array]  # of queries and both caches


def prefill_graph(
    config: LlamaConfig,
    forms: Mapping[str, str],
    tokens: int,
    context: int,
    page: int = 16,
    *,
    reserve: int = 0,
    logits: bool = False,
) -> Graph:
    """A step of up to `tokens` tokens of a prompt.

    Inputs: `tokens` i32[tokens] and `count` i32[1], from 1 to `tokens`: so many are real; the rest
    may be any token, such as 0. Outputs: `token` i32[1], the greedy one behind the last real one;
    with `logits`, `logits`[1, vocabulary] in the compute type. All rows go into the cache, which
    has context + reserve rows, rounded up to pages: position + tokens may not go beyond, else a
    fault. With a reserve of the largest `tokens` of all graphs, a context can be filled. Rows
    behind the real ones are seen by none of them, and written again by the steps that follow.

    forms: what each weight of the checkpoint is (`Weights`). Raises ModelError.
    """
    made = _Llama("prefill", config, forms, context, page, reserve)
    if not 0 < tokens <= made.rows:
        raise ModelError("tokens of a prefill", f"1 to {made.rows}, rows of the cache", str(tokens))
    given = made.g.input("tokens", "i32", (tokens,))
    count = made.g.input("count", "i32", (1,))
    lengths = made.position + tokens
    starts = made.g.literal([0, tokens], "i32")

    def attend(q: Array, k: Array, v: Array) -> Array:
        scale = config.head**-0.5
        found: Array = attention_paged(q, k, v, made.table, lengths, starts, scale=scale)
        return found

    return made.graph(given, attend, count, logits, last=count - 1)


def decode_graph(
    config: LlamaConfig,
    forms: Mapping[str, str],
    context: int,
    page: int = 16,
    *,
    reserve: int = 0,
    logits: bool = False,
) -> Graph:
    """A step of one token, the one that the step before gave: it has no inputs, and outputs and
    arguments as of `prefill_graph`."""
    made = _Llama("decode", config, forms, context, page, reserve)
    lengths = made.position + 1

    def attend(q: Array, k: Array, v: Array) -> Array:
        scale = config.head**-0.5
        found: Array = attention_decode(q, k, v, made.table, lengths, scale=scale)
        return found

    return made.graph(made.token, attend, 1, logits)


class _Llama:
    """What both graphs share: states, weights and layers."""

    def __init__(
        self,
        name: str,
        config: LlamaConfig,
        forms: Mapping[str, str],
        context: int,
        page: int,
        reserve: int,
    ) -> None:
        if not 0 < context <= config.trained:
            expected = f"1 to {config.trained} tokens, as trained"
            raise ModelError("context", expected, str(context))
        if page <= 0 or reserve < 0:
            raise ModelError("cache", "page above 0, reserve from 0 on", f"{page}, {reserve}")
        pages = -(-(context + reserve) // page)
        self.config, self.rows = config, pages * page
        self.g = g = GraphBuilder(name)
        self.weights = Weights(g, forms)
        self.position = g.state("position", "i32", (1,))
        self.token = g.state("token", "i32", (1,))
        cache = (pages, config.kv_heads, page, config.head)
        self.caches = [
            tuple(g.state(f"cache.{kind}.{n}", config.cache, cache) for kind in "kv")
            for n in range(config.layers)
        ]
        self.table = g.literal(np.arange(pages)[None], "i32")

    def graph(
        self,
        tokens: Array,
        attend: Attend,
        count: Array | int,
        logits: bool,
        last: Array | None = None,
    ) -> Graph:
        """The whole step. last: i32[1], the row that the next token comes from; None: the only."""
        found = self._head(self._layers(tokens, attend, last))
        if unused := self.weights.unused:
            expected = "weights of the family alone"
            raise ModelError("checkpoint", expected, ", ".join(map(repr, unused[:4])))
        chosen = greedy(found)
        self.g.output("token", chosen)
        if logits:
            self.g.output("logits", found)
        self.g.commit(self.token, chosen)
        self.g.commit(self.position, self.position + count)
        return self.g.build()

    def _layers(self, tokens: Array, attend: Attend, last: Array | None) -> Array:
        """The normed rows of all layers' sum: of the last token alone, from the last layer's
        attention on."""
        config = self.config
        positions = arange(tokens, tokens.shape[0]) + self.position
        table = (config.vocabulary, config.hidden, config.compute)
        x = self.weights.rows("token_embd.weight", tokens, *table)
        part = None
        for n in range(config.layers):
            normed, x = self._norm(f"blk.{n}.attn_norm.weight", x, part)
            attended = self._attention(n, normed, positions, attend)
            if last is not None and n == config.layers - 1:
                attended, x = take(attended, last), take(x, last)
            part = self.weights.linear(attended, f"blk.{n}.attn_output", config.hidden)
            normed, x = self._norm(f"blk.{n}.ffn_norm.weight", x, part)
            part = self._mlp(n, normed)
        return self._norm("output_norm.weight", x, part)[0]

    def _norm(self, name: str, x: Array, part: Array | None) -> tuple[Array, Array]:
        """The residual stream with what a layer adds to it, normed and as it is."""
        weight = self.weights.plain(name, self.config.hidden)
        if part is None:
            return rms_norm(x, weight, eps=self.config.eps), x
        normed, total = add_rms_norm(part, x, weight, eps=self.config.eps)
        return normed, total

    def _attention(self, n: int, x: Array, positions: Array, attend: Attend) -> Array:
        """Heads side by side, of rows whose keys and values go into the layer's cache."""
        config, tokens = self.config, x.shape[0]
        turned_heads = config.heads + config.kv_heads
        heads = {"q": config.heads, "k": config.kv_heads, "v": config.kv_heads}
        parts = {f"blk.{n}.attn_{kind}": count * config.head for kind, count in heads.items()}
        all_heads = self.weights.joined(x, parts).reshape(tokens, -1, config.head)
        turn: dict[str, Attr] = {"base": config.rope_base, "width": config.rope_width}
        turn |= {"layout": config.layout, "most": self.rows}
        turned = rotary(all_heads[:, :turned_heads], positions, **turn)
        q, k, v = turned[:, : config.heads], turned[:, config.heads :], all_heads[:, turned_heads:]
        sequences = self.g.literal(np.zeros(tokens), "i32")
        caches = []
        for cache, values in zip(self.caches[n], (k, v), strict=True):
            caches.append(kv_append(cache, values, self.table, sequences, positions))
            self.g.commit(cache, caches[-1], donates=True)
        return attend(q, *caches).reshape(tokens, config.heads * config.head)

    def _mlp(self, n: int, x: Array) -> Array:
        mlp = self.config.mlp
        both = self.weights.joined(x, {f"blk.{n}.ffn_{kind}": mlp for kind in ("gate", "up")})
        gate, up = both[:, :mlp], both[:, mlp:]
        hidden = silu(gate) * up
        return self.weights.linear(hidden, f"blk.{n}.ffn_down", self.config.hidden)

    def _head(self, x: Array) -> Array:
        """Logits; a checkpoint without a head shares the table of tokens."""
        own = "output.weight" in self.weights
        name = "output" if own else "token_embd"
        return self.weights.linear(x, name, self.config.vocabulary)
