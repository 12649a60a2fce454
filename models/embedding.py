"""Vectors of sentences from an encoder: batches by buckets of sentences and tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .errors import ModelError

if TYPE_CHECKING:
    from ..runtime.engine import Model

_ENTRY = re.compile(r"encode_(\d+)x(\d+)")


class Embedder:
    """Sentences, as tokens, on a loaded model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        found = (_ENTRY.fullmatch(entry.name) for entry in model.plan.entries)
        self.buckets = sorted((int(m[1]), int(m[2])) for m in found if m)

    @property
    def longest(self) -> int:
        """Tokens that a sentence may have."""
        return max(tokens for _, tokens in self.buckets)

    def embed(self, sentences: Sequence[Sequence[int]]) -> np.ndarray:
        """f32[sentences, hidden], each of length 1. Raises ModelError for a sentence that is too
        long, before anything is computed."""
        for n, sentence in enumerate(sentences):
            if len(sentence) > self.longest:
                expected = f"up to {self.longest} tokens"
                raise ModelError(f"sentence {n}", expected, str(len(sentence)), "shorten it")
        order = sorted(range(len(sentences)), key=lambda n: len(sentences[n]))
        rows: dict[int, np.ndarray] = {}
        most = max(batch for batch, _ in self.buckets)
        for at in range(0, len(order), most):
            some = order[at : at + most]
            rows.update(zip(some, self._batch([sentences[n] for n in some]), strict=True))
        return np.array([rows[n] for n in range(len(sentences))], np.float32)

    def _batch(self, sentences: list[Sequence[int]]) -> list[np.ndarray]:
        longest = max(map(len, sentences))
        batch, tokens = min(
            (
                bucket
                for bucket in self.buckets
                if bucket[0] >= len(sentences) and bucket[1] >= longest
            ),
            key=lambda bucket: bucket[0] * bucket[1],
        )
        ids = np.zeros((batch, tokens), np.int32)
        lengths = np.zeros(batch, np.int32)
        for n, sentence in enumerate(sentences):
            ids[n, : len(sentence)] = sentence
            lengths[n] = len(sentence)
        entry = f"encode_{batch}x{tokens}"
        self.model.step(entry, tokens=ids, lengths=lengths)
        return list(self.model.read(entry, "embedding")[: len(sentences)])
