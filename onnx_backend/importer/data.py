"""The elements of a model's tensors: from the model itself, or from files beside it, which are
mapped into memory and not read. What the model says of a file is not trusted: it is a regular file
within the model's folder, long enough for the tensor."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import onnx

from ...ir.graph import TensorType
from ...ir.graph.types import find_dtype
from ..tensor import ARRAYS, name_of_type
from .refusal import Lacking, Reason


def tensor_type(proto: onnx.TensorProto) -> TensorType:
    """Missing, GraphTypeError: kernels have no such tensor."""
    return TensorType(find_dtype(name_of_type(proto.data_type)), tuple(proto.dims))


def elements(proto: onnx.TensorProto, folder: Path | None) -> np.ndarray:
    """The array of a tensor. Missing, Lacking, GraphTypeError."""
    t = tensor_type(proto)
    if proto.data_location == onnx.TensorProto.EXTERNAL or proto.external_data:
        return _mapped(proto, t, folder)
    if proto.HasField("raw_data") and len(proto.raw_data) != t.bytes:
        got = len(proto.raw_data)
        raise Lacking(Reason.MODEL, f"{t.bytes} bytes for {t}, not {got}")
    try:
        return onnx.numpy_helper.to_array(proto)
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        raise Lacking(Reason.MODEL, f"elements of {t}: {error}") from error


def _mapped(proto: onnx.TensorProto, t: TensorType, folder: Path | None) -> np.ndarray:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(t.bytes)))
    except ValueError as error:
        raise Lacking(Reason.EXTERNAL, f"offset and length as integers: {error}") from error
    if folder is None:
        raise Lacking(Reason.EXTERNAL, f"the folder of {location!r}: give folder=")
    if length != t.bytes or offset < 0:
        got = f"{length} from {offset} on"
        raise Lacking(Reason.EXTERNAL, f"{t.bytes} bytes for {t}, not {got}")
    file = _opened(folder, location)
    with os.fdopen(file, "rb") as opened:
        size = os.fstat(file).st_size
        if offset + length > size:
            got = f"{length} from {offset} on"
            raise Lacking(Reason.EXTERNAL, f"{got} of {location!r}, which has {size} bytes")
        kind = ARRAYS[t.dtype.name]
        if not length:
            return np.zeros(t.shape, kind)
        mapped = np.memmap(opened, np.uint8, "r", offset, (length,))
        return np.asarray(mapped).view(kind).reshape(t.shape)


def _opened(folder: Path, location: str) -> int:
    """A file within the folder, links followed. Lacking: it is none, or lies elsewhere."""
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        if not location or not path.is_relative_to(root):
            raise Lacking(Reason.EXTERNAL, f"a file within the model's folder, not {location!r}")
        if not stat.S_ISREG(path.stat().st_mode):
            raise Lacking(Reason.EXTERNAL, f"a regular file, which {location!r} is not")
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise Lacking(Reason.EXTERNAL, f"a file that can be read, not {location!r}: {error}") from (
            error
        )
