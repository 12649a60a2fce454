"""Graphs through planner, plan text and engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gristmill import planner, runtime
from gristmill.ir.dtypes import DType
from gristmill.ir.graph.core import Graph, Origin
from gristmill.ir.interp.values import encode
from gristmill.ir.ops.meaning import convert
from gristmill.ir.plan import Plan
from gristmill.ir.plan.text import from_json, to_json
from gristmill.runtime.engine import BundleKernels, Engine, Model

Array = np.ndarray


@dataclass
class Given:
    """Weights by name."""

    arrays: Mapping[str, Array]
    identity: str = "given"

    def weight(self, name: str) -> Array:
        return self.arrays[name]


def planned(
    device: runtime.Device, bundle: runtime.Bundle, program: Mapping[str, Graph], name: str = "test"
) -> Plan:
    """The plan, by way of its text; a refusal is a failure."""
    kernels = BundleKernels(bundle, device.capabilities)
    made = planner.plan(name, program, device.capabilities, kernels)
    if not isinstance(made, Plan):
        raise AssertionError("\n".join(map(str, made)))
    text = to_json(made)
    read = from_json(text)
    assert (read, to_json(read)) == (made, text)
    return read


def model_of(
    device: runtime.Device,
    bundle: runtime.Bundle,
    program: Mapping[str, Graph],
    weights: Mapping[str, Array],
) -> Model:
    plan = planned(device, bundle, program)
    return Engine(device, bundle).load(plan, Given(weights))


def stored(values: Array, dtype: DType) -> Array:
    """f64 as memory holds an element type; what is of its storage already, as it is."""
    if values.dtype == dtype.storage or values.dtype != np.float64:
        return values
    return encode(convert(values.reshape(-1), out=dtype), dtype).reshape(values.shape)


def run(
    device: runtime.Device, bundle: runtime.Bundle, graph: Graph, given: Mapping[str, Array]
) -> dict[str, Array]:
    """The outputs of one step."""
    given = {
        s.name: stored(given[s.name], s.tensor.type.dtype)
        for s in graph.sources
        if s.data is None and s.origin is not Origin.STATE
    }
    names = {s.name for s in graph.sources if s.origin is Origin.CONSTANT and s.data is None}
    model = model_of(device, bundle, {"step": graph}, {n: given[n] for n in names})
    inputs = {
        s.name: given[s.name] for s in graph.sources if s.origin in (Origin.INPUT, Origin.SLOT)
    }
    model.step("step", **inputs)
    found = {o.name: model.read("step", o.name) for o in graph.outputs}
    model.unload()
    return found
