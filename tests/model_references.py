"""Model families in plain numpy, one token and one head at a time, as their papers have them: what
graphs are held against. Shares no code with them; f64 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

Weights = Mapping[str, np.ndarray]


def softmax(scores: np.ndarray) -> np.ndarray:
    e = np.exp(scores - scores.max())
    result: np.ndarray = e / e.sum()
    return result


@dataclass(frozen=True)
class LlamaSizes:
    layers: int
    heads: int
    kv_heads: int
    head: int
    eps: float
    base: float


@dataclass
class Llama:
    """Tokens one after the other; keys and values of each layer as a list of rows."""

    sizes: LlamaSizes
    weights: Weights
    keys: list[list[np.ndarray]] = field(default_factory=list)
    values: list[list[np.ndarray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = [[] for _ in range(self.sizes.layers)]
        self.values = [[] for _ in range(self.sizes.layers)]

    def step(self, token: int) -> np.ndarray:
        """The logits behind one more token."""
        w = self.weights
        x = w["token_embd.weight"][token].astype(np.float64)
        for n in range(self.sizes.layers):
            x = x + w[f"blk.{n}.attn_output.weight"] @ self._attention(
                n, self._norm(x, f"blk.{n}.attn_norm.weight")
            )
            h = self._norm(x, f"blk.{n}.ffn_norm.weight")
            gate = w[f"blk.{n}.ffn_gate.weight"] @ h
            inner = gate / (1 + np.exp(-gate)) * (w[f"blk.{n}.ffn_up.weight"] @ h)
            x = x + w[f"blk.{n}.ffn_down.weight"] @ inner
        head = w.get("output.weight", w["token_embd.weight"])
        logits: np.ndarray = head @ self._norm(x, "output_norm.weight")
        return logits

    def run(self, tokens: Sequence[int]) -> np.ndarray:
        """The logits behind each of several tokens."""
        return np.array([self.step(token) for token in tokens])

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """The tokens that follow, each the likeliest one."""
        logits, found = self.run(prompt)[-1], list[int]()
        while len(found) < count:
            found.append(int(logits.argmax()))
            logits = self.step(found[-1]) if len(found) < count else logits
        return found

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        scale = math.sqrt(float(np.mean(x**2)) + self.sizes.eps)
        result: np.ndarray = x / scale * self.weights[name]
        return result

    def _turned(self, x: np.ndarray, position: int) -> np.ndarray:
        """A head as complex numbers of neighbouring columns, turned (arXiv:2104.09864, 3.2)."""
        half = len(x) // 2
        rates = self.sizes.base ** (-2 * np.arange(half) / len(x))
        pairs = (x[0::2] + 1j * x[1::2]) * np.exp(1j * position * rates)
        return np.stack([pairs.real, pairs.imag], 1).reshape(-1)

    def _attention(self, n: int, x: np.ndarray) -> np.ndarray:
        s, position = self.sizes, len(self.keys[n])
        q, k, v = (
            (self.weights[f"blk.{n}.attn_{kind}.weight"] @ x).reshape(-1, s.head) for kind in "qkv"
        )
        self.keys[n].append(np.array([self._turned(row, position) for row in k]))
        self.values[n].append(v)
        keys, values = np.array(self.keys[n]), np.array(self.values[n])
        rows = []
        for head in range(s.heads):
            group = head // (s.heads // s.kv_heads)
            turned = self._turned(q[head], position)
            share = softmax(keys[:, group] @ turned / math.sqrt(s.head))
            rows.append(share @ values[:, group])
        return np.concatenate(rows)


def bert_embedding(
    weights: Weights, tokens: Sequence[int], layers: int, heads: int, eps: float
) -> np.ndarray:
    """The embedding of one sentence, of length 1."""
    w = weights

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        result: np.ndarray = x @ w[f"{name}.weight"].T.astype(np.float64) + w[f"{name}.bias"]
        return result

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        deviation = np.sqrt(x.var(-1, keepdims=True) + eps)
        result: np.ndarray = (x - x.mean(-1, keepdims=True)) / deviation
        return result * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][list(tokens)].astype(np.float64)
    x = x + w["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    size = x.shape[1] // heads
    for n in range(layers):
        name = f"encoder.layer.{n}"
        q, k, v = (dense(x, f"{name}.attention.self.{kind}") for kind in ("query", "key", "value"))
        found = np.zeros_like(x)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for row in range(len(tokens)):
                share = softmax(k[:, part] @ q[row, part] / math.sqrt(size))
                found[row, part] = share @ v[:, part]
        x = norm(
            dense(found, f"{name}.attention.output.dense") + x, f"{name}.attention.output.LayerNorm"
        )
        inner = dense(x, f"{name}.intermediate.dense")
        inner = inner * 0.5 * np.vectorize(math.erfc)(-inner / math.sqrt(2))
        x = norm(dense(inner, f"{name}.output.dense") + x, f"{name}.output.LayerNorm")
    mean = x.mean(0)
    result: np.ndarray = mean / np.linalg.norm(mean)
    return result
