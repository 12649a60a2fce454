"""Real models and what they give: `python tests/model_samples.py` prints FOLLOWS, by the reference.

Weights are those of the packages that `configs/models` names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import GGUFReader, quants

from gristmill.models.config import load
from model_references import Llama, LlamaSizes

CONFIGS = Path(__file__).parents[1] / "configs/models"
# "The capital of France is", and what SmolLM2 goes on with: " Paris.\n\nThe answer is: 2". The
# likeliest token leads by 0.22 in logits at least.
PROMPT = [504, 3575, 282, 4649, 314]
FOLLOWS = [7042, 30, 198, 198, 504, 2988, 314, 42, 216]
# "The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.", as tokens of
# MiniLM, and their similarities as the quickstart of sentence-transformers prints them.
SENTENCES = [
    [101, 1996, 4633, 2003, 8403, 2651, 1012, 102],
    [101, 2009, 1005, 1055, 2061, 11559, 2648, 999, 102],
    [101, 2002, 5225, 2000, 1996, 3346, 1012, 102],
]
SIMILARITIES = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]


def smollm2_file() -> GGUFReader:
    return GGUFReader(str(load(CONFIGS / "smollm2.yaml").checkpoint.locate()))


def smollm2_reference(file: GGUFReader) -> Llama:
    """Its weights in f64: 1.1 GB."""
    weights = {
        t.name: quants.dequantize(t.data, t.tensor_type).astype(np.float64) for t in file.tensors
    }
    sizes = LlamaSizes(layers=30, heads=9, kv_heads=3, head=64, eps=1e-5, base=100_000.0)
    return Llama(sizes, weights)


if __name__ == "__main__":
    print(smollm2_reference(smollm2_file()).greedy(PROMPT, len(FOLLOWS)))
