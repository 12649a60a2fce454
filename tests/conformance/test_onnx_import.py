"""The node tests of ONNX through the import: each passes, or is refused as the page says."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

from need import Need

Need.from_environment(os.environ)("onnx")

from onnx.backend.test.case.test_case import TestCase

from graph_bounds import bounds
from gristmill.ir.graph import GraphBuilder
from gristmill.ir.graph.functions import where
from gristmill.onnx import import_model
from gristmill.onnx.importer.registry import operators
from onnx_cases import cases
from onnx_import_cases import import_outcomes, with_constants, within_bounds
from onnx_import_page import PAGE, renewed


@pytest.fixture(scope="module")
def every() -> dict[str, TestCase]:
    """All cases by name; it takes seconds."""
    return {case.name: case for case in cases()}


def test_every_case_passes_or_is_refused_as_the_page_says(
    every: dict[str, TestCase], record_property: Callable[[str, object], None]
) -> None:
    found = list(import_outcomes(every.values()))
    assert not [outcome for outcome in found if outcome.wrong]
    passed = sum(outcome.passed for outcome in found)
    line = f"ONNX node tests through the import: {passed} pass, {len(found) - passed} refused"
    record_property("summary", line)
    assert PAGE.read_text() == renewed(PAGE.read_text(), found), "python tests/onnx_import_page.py"


def test_the_page_names_every_operator_that_is_imported() -> None:
    """Those that the node tests have; others are of before them."""
    text = PAGE.read_text()
    unseen = {name for _, name in operators() if f"| {name} |" not in text}
    assert unseen == set()


def test_a_value_that_is_off_by_more_than_roundings_is_seen(every: dict[str, TestCase]) -> None:
    case = every["test_softmax_large_number"]
    ((inputs, expected),) = case.data_sets
    found = import_model(case.model)
    given = {"x": inputs[0]}
    within_bounds(found, given, expected)
    with pytest.raises(AssertionError, match="within"):
        within_bounds(found, given, [expected[0] * np.float32(1 + 2e-5)])


def test_a_bound_grows_where_numbers_cancel_and_is_none_where_they_are_exact(
    rng: np.random.Generator,
) -> None:
    g = GraphBuilder("bounds")
    x = g.input("x", "f32", (8,))
    g.output("near", (x + 1000.0) - 1000.0)
    g.output("moved", x[::2].reshape(2, 2).T)
    g.output("chosen", where(x > 0.0, x, -x))
    given = {"x": rng.normal(size=8).astype(np.float32)}
    found = bounds(g.build(), given)
    assert (found["near"][1] > 2.0**-15).all()
    assert not found["moved"][1].any()
    assert not found["chosen"][1].any()


def test_inputs_become_constants_from_a_place_on(every: dict[str, TestCase]) -> None:
    case = every["test_reduce_sum_keepdims_example"]
    assert [t.name for t in with_constants(case, 1).graph.initializer] == ["axes"]
