"""Nodes whose inputs follow from the model and from shapes alone: they are constants, too.

They are evaluated once on the host by ONNX's own reference, as engines do when they load a model.
Nothing that follows from a value of a graph's input is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from .tensor import OF_ARRAYS, Tensor

LARGEST = 4096  # elements; more are computed by kernels


def foldable(proto: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> bool:
    """Whether a node, which has inputs and no graphs inside, is a constant of a few elements."""
    graphs = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    return (
        bool(inputs)
        and all(t is None or (t.fixed and t.value is not None) for t in inputs)
        and sum(t.size for t in inputs if t is not None) <= LARGEST
        and not any(a.type in graphs for a in proto.attribute)
    )


def folded(
    proto: onnx.NodeProto, inputs: Sequence[Tensor | None], versions: dict[str, int]
) -> tuple[np.ndarray, ...] | None:
    """The outputs; None where one is of a type that tensors here do not have, or the reference
    cannot evaluate the node (its errors are of every kind)."""
    given = {
        name: t.value for name, t in zip(proto.input, inputs, strict=True) if t is not None and name
    }
    graph = onnx.helper.make_graph(
        [proto],
        "constant",
        [onnx.helper.make_empty_tensor_value_info(name) for name in given],
        [onnx.helper.make_empty_tensor_value_info(name) for name in proto.output if name],
    )
    opsets = [onnx.helper.make_opsetid(d, v) for d, v in versions.items()]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found: list[Any] = ReferenceEvaluator(model).run(None, given)  # type: ignore[assignment]
        except Exception:  # the kernels then say what does not fit, or compute it
            return None
    arrays = tuple(np.asarray(a) for a in found if isinstance(a, np.ndarray | np.generic))
    fits = len(arrays) == len(found) and all(
        a.dtype in OF_ARRAYS and a.size <= LARGEST for a in arrays
    )
    return arrays if fits else None
