"""Fixtures on a device: planned, loaded, stepped, and judged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ... import planner
from ...ir.dtypes import DTYPES
from ...ir.graph import Graph
from ...ir.graph.core import Origin
from ...ir.graph.oracle import DECLARED, WIDE, evaluate
from ...ir.interp.values import decode
from ...ir.plan import Plan, Role
from ...ir.plan.text import from_json, to_json
from ...runtime import Bundle, Device, GristmillError, Poisoned
from ...runtime.engine import BundleKernels, Engine, Model
from .fixture import Case, Fixture, Values
from .mutation import Mutation
from .table import FIXTURES

GRANULE = 16  # bytes that a device keeps, to bind them as empty buffers


@dataclass(frozen=True, slots=True)
class Result:
    """One fixture. status: ok, wrong (a result left its bound, a replay gave other bits, or memory
    was not given back), failed (planning or running raised), refused (what the device lacks is the
    reason). error and bound: of the element that came nearest to its bound."""

    name: str
    status: str
    error: float = 0.0
    bound: float = 0.0
    launches: int = 0
    seconds: float = 0.0
    reason: str = ""


@dataclass(slots=True)
class Judgement:
    """What comparisons have found so far."""

    fixture: Fixture
    error: float = 0.0
    bound: float = 0.0
    share: float = 0.0
    wrong: str = ""

    def compare(self, got: Values, want: Values, place: str) -> None:
        """NaN is NaN; an infinity is that infinity; all else is within the bound."""
        if want.dtype.kind != "f":
            off = got != want
            if off.any() and not self.wrong:
                self.wrong = f"{place}[{np.argmax(off)}] is wrong"
            return
        with np.errstate(all="ignore"):
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            error = np.where(same, 0.0, np.abs(got - want))
        error = np.where(np.isnan(error), np.inf, error).reshape(-1)
        allowed = self.fixture.bound.allowed(want).reshape(-1)
        allowed = np.nan_to_num(allowed, nan=0.0, posinf=0.0)
        if not error.size:
            return
        with np.errstate(all="ignore"):
            share = np.where(error > 0, error / allowed, 0.0)
        worst = int(np.argmax(share))
        if share[worst] >= self.share:
            self.share = float(share[worst])
            self.error, self.bound = float(error[worst]), float(allowed[worst])
        if share[worst] > 1 and not self.wrong:
            self.wrong = f"{place}[{worst}] is out of its bound"


@dataclass(frozen=True, slots=True)
class _Given:
    arrays: Mapping[str, Values] = field(default_factory=dict)
    identity: str = ""

    def weight(self, name: str) -> Values:
        return self.arrays[name]


def check(
    device: Device, bundle: Bundle, fixtures: Sequence[Fixture] = FIXTURES, seed: int = 0
) -> Iterator[Result]:
    """The results of fixtures, one after the other."""
    return (judge(device, bundle, fixture, seed) for fixture in fixtures)


def judge(
    device: Device,
    bundle: Bundle,
    fixture: Fixture,
    seed: int = 0,
    mutation: Mutation | None = None,
) -> Result:
    """One fixture. mutation: what happens to its plan before it runs."""
    case = fixture.make(np.random.default_rng(seed))
    begin = time.perf_counter()
    kernels = BundleKernels(bundle, device.capabilities)
    made = planner.plan(fixture.name, case.program, device.capabilities, kernels)
    if not isinstance(made, Plan):
        return Result(fixture.name, "refused", reason="; ".join(map(str, made)))
    plan = from_json(to_json(made)) if mutation is None else mutation(made)
    launches = sum(len(e.launches) for e in plan.entries) + len(plan.load)
    found = Judgement(fixture)
    try:
        _run(device, bundle, plan, case, found)
    except GristmillError as error:
        reason = f"{type(error).__name__}: {error}"
        return Result(fixture.name, "failed", launches=launches, reason=reason)
    seconds = time.perf_counter() - begin
    status = "wrong" if found.wrong else "ok"
    return Result(fixture.name, status, found.error, found.bound, launches, seconds, found.wrong)


def _run(device: Device, bundle: Bundle, plan: Plan, case: Case, found: Judgement) -> None:
    before = device.memory().live
    model = Engine(device, bundle).load(plan, _Given(case.weights))
    try:
        bits = _steps(model, case, found)
        if not found.wrong and bits != _again(model, case):
            found.wrong = "after a reset the same steps gave other bits"
    finally:
        with contextlib.suppress(Poisoned):  # the step has told
            model.unload()
    left = device.memory().live - before
    if left > GRANULE and not found.wrong:
        found.wrong = f"{left} bytes are not given back"


def _again(model: Model, case: Case) -> list[bytes]:
    model.reset()
    return [bits for step in range(len(case.steps)) for bits in _bits(_stepped(model, case, step))]


def _bits(results: Mapping[str, Values]) -> list[bytes]:
    return [values.tobytes() for values in results.values()]


def _stepped(model: Model, case: Case, number: int) -> dict[str, Values]:
    """What a step gives: outputs, and what states are then."""
    step = case.steps[number]
    model.step(step.entry, **step.inputs)
    graph = case.program[step.entry]
    found = {o.name: model.read(step.entry, o.name) for o in graph.outputs}
    states = {s.name for s in model.plan.storages if s.role is Role.STATE}
    for source in graph.of(Origin.STATE):
        if source.name in states:
            values = model.state(source.name)
            found[f"state {source.name}"] = values.reshape(source.tensor.type.shape)
    return found


def _steps(model: Model, case: Case, found: Judgement) -> list[bytes]:
    """Each step beside the oracle, which has its own states."""
    precision = WIDE if found.fixture.bound.roundings else DECLARED
    states: dict[str, Values] = {}
    bits: list[bytes] = []
    for number, step in enumerate(case.steps):
        graph = case.program[step.entry]
        named = {s.name for s in graph.sources if s.data is None}
        given = {**case.weights, **states, **step.inputs}
        results = evaluate(graph, {n: v for n, v in given.items() if n in named}, precision)
        states |= results.states
        want = {**results.outputs, **{f"state {n}": v for n, v in results.states.items()}}
        got = _stepped(model, case, number)
        bits += _bits(got)
        types = _types(graph)
        for name, values in got.items():
            place = f"step {number}, {name}"
            expected = want[name] if precision is WIDE else _wide(want[name], types[name])
            found.compare(_wide(values, types[name]), expected, place)
    return bits


def _wide(values: Values, name: str) -> Values:
    """Floats in f64, all else as it is."""
    dtype = DTYPES[name]
    if not dtype.is_float:
        return values
    with np.errstate(all="ignore"):
        return np.asarray(decode(values, dtype), np.float64)


def _types(graph: Graph) -> dict[str, str]:
    found = {o.name: str(o.tensor.type.dtype) for o in graph.outputs}
    return found | {f"state {s.name}": str(s.tensor.type.dtype) for s in graph.of(Origin.STATE)}
