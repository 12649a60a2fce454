"""The graphs of a configured model, and its weights, from its checkpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.graph import Graph
from .bert import BertConfig, encoder_graph, weight_names
from .checkpoints import Checkpoint, open_checkpoint
from .config import ModelConfig
from .errors import ModelError
from .llama import LlamaConfig, decode_graph, prefill_graph

DECODE = "decode"


@dataclass(frozen=True, slots=True)
class CheckpointWeights:
    """The tensors of a checkpoint as an engine takes them."""

    checkpoint: Checkpoint

    @property
    def identity(self) -> str:
        """Path, size and date of the file: what is mapped is not read twice to tell it apart."""
        path = self.checkpoint.path.resolve()
        status = path.stat()
        return f"{path}:{status.st_size}:{status.st_mtime_ns}"

    def weight(self, name: str) -> np.ndarray:
        """A view of the file. Raises KeyError."""
        if name not in self.checkpoint.names():
            raise KeyError(name)
        return self.checkpoint.tensor(name).data


def opened(config: ModelConfig, root: Path = Path()) -> Checkpoint:
    """The checkpoint of a model. Raises CheckpointError."""
    return open_checkpoint(config.checkpoint.locate(root))


def forms_of(checkpoint: Checkpoint) -> dict[str, str]:
    """What each tensor is: an element type or a block format."""
    return {name: checkpoint.tensor(name).form.name for name in checkpoint.names()}


def shape_digest(checkpoint: Checkpoint) -> str:
    """Of all that a plan depends on: metadata, and names, forms and shapes of the tensors."""
    tensors = {
        n: (checkpoint.tensor(n).form.name, checkpoint.tensor(n).shape) for n in checkpoint.names()
    }
    sizes = {k: v for k, v in sorted(checkpoint.metadata.items()) if not _is_array(v)}
    text = json.dumps([sizes, sorted(tensors.items())], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, tuple, list))


def program(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, Graph]:
    """The entries of a model by their names: `decode` and `prefill_TOKENS` of a llama, whose cache
    is for the largest context; `encode_BATCHxTOKENS` of a bert. Raises ModelError."""
    if config.family == "llama":
        return _llama(config, checkpoint)
    return _bert(config, checkpoint)


def _llama(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, Graph]:
    forms = forms_of(checkpoint)
    sizes = LlamaConfig.from_metadata(
        checkpoint.metadata, compute=config.compute, cache=config.cache
    )
    context, page, reserve = max(config.context), config.page, config.reserve
    made = {DECODE: decode_graph(sizes, forms, context, page, reserve=reserve)}
    for tokens in config.prefill:
        graph = prefill_graph(sizes, forms, tokens, context, page, reserve=reserve)
        made[f"prefill_{tokens}"] = graph
    return made


def _bert(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, Graph]:
    sizes = bert_config(checkpoint)
    forms = forms_of(checkpoint)
    used = {name: forms[name] for name in weight_names(sizes) if name in forms}
    return {
        f"encode_{batch}x{tokens}": encoder_graph(sizes, batch, tokens, config.page, forms=used)
        for batch in config.batch
        for tokens in config.prefill
        if tokens <= sizes.positions
    }


def bert_config(checkpoint: Checkpoint) -> BertConfig:
    """From the `config.json` beside the file. Raises ModelError."""
    path = checkpoint.path.with_name("config.json")
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(str(path), "the configuration of a BERT as JSON", str(error)) from error
    return BertConfig.from_json(found)
