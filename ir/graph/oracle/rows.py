"""What each primitive does with numpy arrays, by its name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...dtypes import DType
from ...ops import ROWS
from ...ops.meaning import convert
from ..core import Node
from ..elementwise import ELEMENTWISE
from .precision import Array, Precision

Evaluator = Callable[[Node, list[Array], Precision], list[Array]]
_EVALUATORS: dict[str, Evaluator] = {}


def row(name: str) -> Callable[[Evaluator], Evaluator]:
    """Enter the evaluator of an op."""

    def enter(evaluator: Evaluator) -> Evaluator:
        assert name not in _EVALUATORS
        _EVALUATORS[name] = evaluator
        return evaluator

    return enter


def find(node: Node) -> Evaluator:
    """The evaluator of a node's op."""
    return _elementwise if node.op in ELEMENTWISE else _EVALUATORS[node.op]


def evaluators() -> set[str]:
    """The names of all ops that are evaluated."""
    return set(_EVALUATORS) | ELEMENTWISE


def _elementwise(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    meaning = ROWS[node.op].meaning
    assert meaning is not None, f"{node.op} has no meaning in numpy"
    dtype = node.results[0].type.dtype
    shape = node.results[0].type.shape
    flat = [x.reshape(-1) for x in operands]
    value = np.asarray(meaning(*flat, out=precision.type(dtype)))
    return [precision.settled(value, dtype).reshape(shape)]


@row("cast")
def _cast(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    dtype = node.attr("dtype")
    assert isinstance(dtype, DType)
    return [np.asarray(convert(operands[0], out=precision.type(dtype)))]


@row("bitcast")
def _bitcast(node: Node, operands: list[Array], precision: Precision) -> list[Array]:
    """Bits are those of the declared type, also where floats are wide."""
    source, target = node.operands[0].type.dtype, node.results[0].type.dtype
    narrow = Precision.DECLARED
    exact = narrow.rounded(operands[0], source) if source.is_float else operands[0]
    words = np.ascontiguousarray(narrow.store(exact, source)).reshape(-1)
    found = narrow.load(words.view(target.storage), target)
    return [precision.load(narrow.store(found, target), target).reshape(operands[0].shape)]
