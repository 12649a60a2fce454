"""Checkpoints: files of named tensors, mapped into memory and read without a copy.

    checkpoint = open_checkpoint("model.gguf")
    problems = checkpoint.require({"output_norm.weight": ExpectedTensor((576,), ("f32",))})
    if problems:
        raise CheckpointError(checkpoint.path, problems)
    stored = checkpoint.tensor("output_norm.weight")  # stored.data: float32[576], read-only

GGUF (versions 2 and 3, little-endian) and safetensors files are read with numpy and nothing else.
A header that is none is an error when the file is opened, a tensor that is damaged is a problem
that `require` lists.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from ..errors import CheckpointFormatError, CheckpointMissingError
from ..problems import Absent, Malformed, Truncated, Unsupported
from . import gguf_file, safetensors_file
from .stored import Checkpoint, ExpectedTensor, Form, StoredTensor

__all__ = ["Checkpoint", "ExpectedTensor", "Form", "StoredTensor", "open_checkpoint"]


def open_checkpoint(path: str | Path) -> Checkpoint:
    """The checkpoint in a GGUF or safetensors file; its first bytes say which.

    The file stays mapped for as long as the checkpoint or an array of it lives, and is not to be
    written or made shorter meanwhile: the system ends a process that reads behind the end of it.

    CheckpointMissingError where there is no such file, CheckpointFormatError where its header is
    not readable.
    """
    path = Path(path)
    raw = _mapped(path)
    start = raw[:9].tobytes()
    if start[:4] == gguf_file.MAGIC:
        return Checkpoint(path, raw, gguf_file.read(path, raw))
    if len(start) < 9:
        short = Truncated("file", "at least 9 bytes", str(raw.size))
        raise CheckpointFormatError(path, [short])
    if start[8:] == b"{":
        return Checkpoint(path, raw, safetensors_file.read(path, raw))
    problem = Unsupported("file", "a GGUF or safetensors file", f"one that starts with {start!r}")
    raise CheckpointFormatError(path, [problem])


def _mapped(path: Path) -> np.ndarray:
    """The bytes of a file, uint8[size], read-only."""
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):  # nothing can be mapped
                return np.zeros(0, np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except FileNotFoundError:
        raise CheckpointMissingError(path, [Absent("file", "a checkpoint", "no file")]) from None
    except (OSError, ValueError) as error:
        problem = Malformed("file", "one that can be mapped", str(error), "check path and rights")
        raise CheckpointFormatError(path, [problem]) from error
