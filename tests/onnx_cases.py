"""The node tests of ONNX on a device: each case passes, is refused with a reason, or is wrong.

The suite's own comparison judges, with the tolerances that it states (1e-3 relative and 1e-7
absolute): they are wider than the errors of kernels in f32. It gives bf16 two ulps; f16 gets as
much here, 2**-9, as expected outputs in f16 are rounded after each step and off by nearly one
themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.runner import Runner

from gristmill import runtime
from gristmill.onnx import GristmillBackend, NodeRefused

TWO_ULPS = 2.0**-9


class Judged(Protocol):
    """What became of a case: its operator, whether it is a graph of others, why it is refused."""

    @property
    def case(self) -> str: ...

    @property
    def op(self) -> str: ...

    @property
    def expanded(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def passed(self) -> bool: ...


class Outcome(NamedTuple):
    """reason: "" where the case passes. wrong: the reason is no refusal but a failure."""

    case: str
    op: str
    expanded: bool
    reason: str
    wrong: bool = False

    @property
    def passed(self) -> bool:
        return not self.reason


def cases() -> list[TestCase]:
    """Every node case. Their inputs are made by importing them, which takes seconds."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def op_of(case: TestCase) -> tuple[str, bool]:
    """The operator that a case is of, and whether it is spelled out as a graph of others."""
    expanded = "_expanded" in case.name
    return ("", True) if expanded else (case.model.graph.node[0].op_type, False)


def outcomes(
    every: Iterable[TestCase], device: runtime.Device, bundle: runtime.Bundle
) -> Iterator[Outcome]:
    """What becomes of each case on an open device."""
    for case in every:
        op, expanded = op_of(case)
        name = case.name.removeprefix("test_")
        try:
            _run(case, device, bundle)
        except NodeRefused as refused:
            yield Outcome(name, op, expanded, refused.refusal.missing)
        except (AssertionError, runtime.GristmillError) as error:
            yield Outcome(name, op, expanded, f"{type(error).__name__}: {error}", wrong=True)
        else:
            yield Outcome(name, op, expanded, "")


def _run(case: TestCase, device: runtime.Device, bundle: runtime.Bundle) -> None:
    prepared = GristmillBackend.prepare(case.model, device, bundle)
    for inputs, expected in case.data_sets:
        judge([array(x) for x in expected], prepared.run([array(x) for x in inputs]), case)


def array(value: Any) -> Any:
    """What a case holds as a TensorProto, as an array."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def judge(expected: list[Any], got: tuple[Any, ...], case: TestCase) -> None:
    """AssertionError: an output of another number, shape, type or value."""
    if any(getattr(e, "dtype", None) == np.float16 for e in expected):
        Runner.assert_similar_outputs(expected, got, max(case.rtol, TWO_ULPS), case.atol)
    else:
        Runner.assert_similar_outputs(expected, got, case.rtol, case.atol)
