"""The sizes of a Llama, from what a GGUF file says of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from .errors import ModelError, UnknownArchitectureError
from .weights import PLAIN

# Whose weights and metadata mean what is computed here, and how rotary pairs lie in them.
LAYOUTS = {"llama": "pairs"}
_SIZES = {
    "layers": "block_count",
    "hidden": "embedding_length",
    "heads": "attention.head_count",
    "mlp": "feed_forward_length",
    "trained": "context_length",
}
# What would have to be computed otherwise, and the values by which it is not.
_PLAIN = {
    "rope.scaling.type": ("none",),
    "expert_count": (0,),
    "attention.sliding_window": (0,),
    "attention.causal": (True,),
    "logit_scale": (1.0,),
}


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    """Sizes in elements. trained: tokens that the model was trained to see. layout: of rotary
    pairs. compute: the type of activations. cache: that of keys and values. Raises ModelError."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    mlp: int
    vocabulary: int
    trained: int
    eps: float
    rope_base: float
    rope_width: int
    layout: str = "pairs"
    compute: str = "f32"
    cache: str = "f32"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            number = not isinstance(value, str)
            if number and not (math.isfinite(value) and value > 0):
                raise ModelError(field.name, "a number above 0", repr(value))
        self._check("heads", self.heads % self.kv_heads == 0, f"multiples of {self.kv_heads}")
        even = self.rope_width % 2 == 0 and self.rope_width <= self.head
        self._check("rope_width", even, f"an even number up to {self.head}")
        self._check("layout", self.layout in ("halves", "pairs"), "halves or pairs")
        for name in ("compute", "cache"):
            self._check(name, getattr(self, name) in PLAIN, f"one of {', '.join(PLAIN)}")

    def _check(self, name: str, fits: bool, expected: str) -> None:
        if not fits:
            raise ModelError(name, expected, repr(getattr(self, name)))

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, Any], *, compute: str = "f32", cache: str = "f32"
    ) -> LlamaConfig:
        """From the keys and values of a GGUF file. Raises UnknownArchitectureError for one that is
        no Llama, ModelError for keys that are missing or ask for what is not computed here."""
        family = metadata.get("general.architecture")
        if family not in LAYOUTS:
            raise UnknownArchitectureError(family, LAYOUTS)
        read = _Metadata(metadata, str(family))
        for key, values in _PLAIN.items():
            read.must_be(key, values)
        sizes = {name: read.size(key) for name, key in _SIZES.items()}
        heads = sizes["heads"]
        head = read.size("attention.key_length", sizes["hidden"] // max(heads, 1))
        read.must_be("attention.value_length", (head,))
        tokens = metadata.get("tokenizer.ggml.tokens", ())
        return cls(
            **sizes,
            kv_heads=read.size("attention.head_count_kv", heads),
            head=head,
            vocabulary=read.size("vocab_size", len(tokens) or None),
            eps=read.number("attention.layer_norm_rms_epsilon"),
            rope_base=read.number("rope.freq_base", 10_000.0),
            rope_width=read.size("rope.dimension_count", head),
            layout=LAYOUTS[str(family)],
            compute=compute,
            cache=cache,
        )


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The keys of one architecture."""

    metadata: Mapping[str, Any]
    family: str

    def number(self, key: str, default: float | None = None) -> float:
        """Raises ModelError where there is neither a number nor a default."""
        value = self.metadata.get(f"{self.family}.{key}", default)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise self._wrong(key, "a number", value) from None

    def size(self, key: str, default: int | None = None) -> int:
        """Raises ModelError as `number`, and where it is not whole."""
        value = self.number(key, default)
        if value != int(value):
            raise self._wrong(key, "an integer", value)
        return int(value)

    def must_be(self, key: str, values: tuple[object, ...]) -> None:
        """One of these values, where the key is there. Raises ModelError."""
        value = self.metadata.get(f"{self.family}.{key}", values[0])
        if value not in values:
            raise self._wrong(key, " or ".join(map(repr, values)), value)

    def _wrong(self, key: str, expected: str, value: object) -> ModelError:
        return ModelError(f"metadata {self.family}.{key}", expected, repr(value))
