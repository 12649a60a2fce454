"""The node tests of ONNX through the import: each model passes, is refused, or is wrong.

A graph is evaluated by the oracle of graphs. What is expected is held against it twice: by the
suite's own comparison, and by the bounds that follow from the graph (`graph_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase

from graph_bounds import SLACK, bounds, greatest
from gristmill.ir.dtypes import DType
from gristmill.ir.graph import Origin
from gristmill.ir.graph.oracle import GraphFault, WorkBudgetError, evaluate
from gristmill.onnx import Imported, Reason, import_model
from gristmill.onnx.importer.value import restored, stored, type_of
from onnx_cases import array, judge, op_of


class ImportOutcome(NamedTuple):
    """reason: "" where the case passes. wrong: the reason is no refusal but a failure. constants:
    how many of its inputs had to be constants of the model."""

    case: str
    op: str
    expanded: bool
    reason: str
    wrong: bool = False
    constants: int = 0

    @property
    def passed(self) -> bool:
        return not self.reason


def import_outcomes(every: Iterable[TestCase]) -> Iterator[ImportOutcome]:
    """What becomes of each case."""
    for case in every:
        op, expanded = op_of(case)
        name = case.name.removeprefix("test_")
        model, constants = case.model, 0
        found = import_model(model)
        # Cases give all operands as inputs, also those that decide shapes.
        for first in (1, 0):
            if not isinstance(found, Imported) and any(r.reason is Reason.DATA for r in found):
                model = with_constants(case, first)
                constants = len(model.graph.initializer)
                found = import_model(model)
        if not isinstance(found, Imported):
            reasons = sorted({f"{r.reason.value}: {r.missing}" for r in found})
            yield ImportOutcome(name, op, expanded, "; ".join(reasons))
            continue
        try:
            for inputs, expected in case.data_sets:
                given, wanted = inputs_of(found, case.model, inputs), [*map(array, expected)]
                made = outputs_of(found, given)
                judge(wanted, made, case)
                within_bounds(found, given, wanted, made)
        except (AssertionError, GraphFault, WorkBudgetError, KeyError, ValueError) as error:
            wrong = f"{type(error).__name__}: {error}"
            yield ImportOutcome(name, op, expanded, wrong, wrong=True)
        else:
            yield ImportOutcome(name, op, expanded, "", constants=constants)


def with_constants(case: TestCase, first: int) -> onnx.ModelProto:
    """The model of a case with the elements of its inputs from a place on as initializers."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    ((inputs, _),) = case.data_sets
    for value, given in list(zip(case.model.graph.input, inputs, strict=True))[first:]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(array(given), value.name))
    return model


def inputs_of(
    found: Imported, model: onnx.ModelProto, inputs: Iterable[Any]
) -> dict[str, np.ndarray]:
    """What a graph takes, of inputs in the order of `model`, but for those that are constants of
    the graph."""
    given = dict(found.weights)
    taken = {source.name for source in found.graph.of(Origin.INPUT)}
    for value, one in zip(model.graph.input, map(array, inputs), strict=True):
        if value.name in taken:
            given[value.name] = stored(one, type_of(one))
    return given


def outputs_of(found: Imported, given: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
    """As ONNX has them, in their order."""
    outputs = evaluate(found.graph, given).outputs
    return tuple(restored(outputs[o.name], o.tensor.type) for o in found.graph.outputs)


def within_bounds(
    found: Imported,
    given: dict[str, np.ndarray],
    expected: Sequence[np.ndarray],
    made: Sequence[np.ndarray] | None = None,
) -> None:
    """AssertionError: an expected value, or one of the oracle (`made`, where it is there already),
    is further off than roundings are. A graph without nodes has none: its outputs are constants,
    which the import has computed."""
    if not found.graph.nodes:
        return
    limits = bounds(found.graph, given)
    made = outputs_of(found, given) if made is None else made
    for output, ours, theirs in zip(found.graph.outputs, made, expected, strict=True):
        value, error = limits[output.name]
        for got, slack in ((ours, 1.0), (theirs, SLACK)):
            far = _too_far(np.asarray(got), value, slack * error, output.tensor.type.dtype)
            assert not far.any(), (
                f"{output.name}: {np.asarray(got)[far][:3]}, not {value[far][:3]} within"
                f" {(slack * error)[far][:3]}"
            )


def _too_far(got: np.ndarray, value: np.ndarray, error: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.is_bool:
        return (got != value) & (error == 0)
    if dtype.is_int:
        return (got != value) & ~(abs(got.astype(float) - value.astype(float)) <= error)
    wide = got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(wide - value) <= error
        endless = np.isnan(wide) if dtype.name == "f8e4m3" else np.isinf(wide)  # it has no infinity
        beyond = endless & (np.abs(value) + error >= greatest(dtype))
    return ~(near | beyond | (wide == value) | (np.isnan(wide) & np.isnan(value)))
