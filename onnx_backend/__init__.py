"""ONNX models, node by node, on kernels that were built before.

    from gristmill import onnx as backend

    outputs = backend.prepare(model, "vulkan", bundle=runtime.open_bundle("artifacts")).run(inputs)

A node becomes one launch or a few of kernels that ship; nothing is compiled. What no kernel
computes is refused (`NodeRefused`, whose `refusal` says what is missing), before anything of the
node is launched. The host computes shapes, strides and constants, and reads operands that say where
and how much (axes, sizes, steps, paddings); it computes no element of a result.

This is the optional part that needs the package `onnx`, and a check of the kernels from outside:
`docs/ONNX.md` holds what the node tests of ONNX say.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("onnx") is None:
    raise ModuleNotFoundError(
        "gristmill.onnx needs the package onnx: pip install 'gristmill[onnx]'", name="onnx"
    )

from .backend import GristmillBackend, Prepared, prepare
from .importer import Imported, ImportRefusal, Reason, import_model
from .refusal import InvalidNode, NodeRefused, Refusal
from .registry import operators

__all__ = [
    "GristmillBackend",
    "ImportRefusal",
    "Imported",
    "InvalidNode",
    "NodeRefused",
    "Prepared",
    "Reason",
    "Refusal",
    "import_model",
    "operators",
    "prepare",
]
