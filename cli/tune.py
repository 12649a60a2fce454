"""`gristmill tune`: measures the points of a declared space on a device, from a bundle that was
built elsewhere (`scons tune=KERNEL`), and writes the winners for a build (docs/TUNING.md).

A candidate is first judged by its family's reference, on the family's inputs, and on the problem
itself where it is not LARGE and takes the reference at most LONG seconds. What is wrong is told and
left out.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import runtime
from ..ir.dtypes import DTYPES
from ..kernels import families
from ..kernels.family import Family, compare
from ..runtime.cost import estimate
from ..runtime.selection import lacking, listed
from . import tuning_file
from .check import judge
from .errors import CommandError
from .measuring import FEWEST, Times, race, recorded, scores, ties
from .problem import arguments as problem
from .problem import rotated, uploaded
from .references import References
from .table import table

LONG, LARGE = 3.0, 1 << 26  # seconds; elements of its buffers
_SEED = 0


@dataclass(frozen=True)
class Candidate:
    """A variant on the device. point: its constexprs as they are declared."""

    point: dict[str, Any]
    kernel: runtime.LoadedKernel

    @property
    def name(self) -> str:
        return tuning_file.flow(self.point)


@dataclass
class Problem:
    """What was measured of one problem. wrong: why candidates were left out."""

    sizes: dict[str, int]
    points: dict[str, dict[str, Any]]
    times: dict[str, Times]
    scores: dict[str, float]
    equal: list[str]
    winner: Candidate
    wrong: dict[str, str]
    checked: bool


def tune(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.rounds < FEWEST:
        raise CommandError(f"{arguments.rounds} rounds tell nothing apart; at least {FEWEST}")
    name, _, only = arguments.kernel.partition("/")
    try:
        bundle = runtime.open_bundle(arguments.bundle)
    except runtime.ArtifactMissing as error:
        do = f"build its points with `scons tune={name} target=TARGET`"
        raise CommandError(f"{error.where}: no bundle of points to measure; {do}") from error
    family = families().get(name)
    specializations = [s for s in bundle.kernels().get(name, ()) if s == (only or s)]
    if not specializations:
        have = ", ".join(bundle.kernels()) or "nothing"
        raise CommandError(f"no kernel {arguments.kernel!r} in {bundle.root} (it has {have})")
    if family is None:
        raise CommandError(f"{name}: no reference is known, so that nothing can be judged")
    entries: list[dict[str, Any]] = []
    written: tuning_file.Written | None = None
    with runtime.open_device(arguments.device) as device:
        has = device.capabilities
        path = Path(arguments.out or tuning_file.default(has))
        tuning_file.check(path, has)  # before anything is measured
        print(f"{has.device}: {has.name}, {has.driver}", flush=True)
        for specialization in specializations:
            entry: dict[str, Any] = {}
            for entry in _specialization(device, bundle, family, specialization, arguments):
                # After each problem, so that a run that is cut off leaves what it has measured.
                written = tuning_file.write(path, has, [*entries, entry], written)
            entries += [entry] if entry else []
    if not entries:
        raise CommandError(
            f"nothing to measure: {bundle.root} has no points of {name} that this device takes "
            f"(build them with scons tune={name})"
        )
    print(f"written, for the next build to take in: {path}")
    return 0


def _specialization(
    device: runtime.Device,
    bundle: runtime.Bundle,
    family: Family,
    specialization: str,
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """The entry of one specialization as it stands after each problem; none where the device takes
    no point of it."""
    artifacts = _offered(bundle, family.name, specialization, device)
    if not artifacts:
        return
    declared = artifacts[0].manifest.facts["tune"]
    candidates, wrong = _judged(device, bundle, family, specialization, artifacts)
    target = listed(artifacts[0].manifest.target)
    print(f"{family.name} {specialization} on {target}: {len(candidates)} candidates")
    for name, why in wrong.items():
        print(f"  left out: {name}: {why}")
    if not candidates:
        raise CommandError(f"{family.name} {specialization}: every candidate is wrong or fails")
    shapes: list[dict[str, Any]] = []
    checked = True
    for sizes in options.sizes or declared["sizes"]:
        made = _problem(device, family, candidates, sizes, declared, options)
        print(_text(made), flush=True)
        shapes.append(_shape(made))
        checked = checked and made.checked
        yield {
            "kernel": family.name,
            "specialization": specialization,
            "target": target,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "driver": device.capabilities.driver,
            "command": _command(options),
            "checked": "inputs, problems" if checked else "inputs",
            **({"excluded": [f"{name}: {why}" for name, why in wrong.items()]} if wrong else {}),
            "shapes": [*shapes],
        }


def _command(options: argparse.Namespace) -> str:
    sizes = [
        "--sizes " + ",".join(f"{n}={v}" for n, v in one.items()) for one in options.sizes or ()
    ]
    words = ["gristmill tune", options.kernel, f"--device {options.device}", *sizes]
    by = [] if options.by == "median" else [f"--by {options.by}"]
    return " ".join([*words, f"--rounds {options.rounds}", *by])


def _offered(
    bundle: runtime.Bundle, kernel: str, specialization: str, device: runtime.Device
) -> list[runtime.Artifact]:
    """The points of the first of the device's targets that has any which fit, each once."""
    has = device.capabilities
    for target in has.targets:
        found: dict[str, runtime.Artifact] = {}
        for artifact in bundle.artifacts(kernel, specialization):
            m = artifact.manifest
            if listed(m.target) == target and "tune" in m.facts and not lacking(m, has):
                found.setdefault(json.dumps(m.constexprs, sort_keys=True), artifact)
        if found:
            return list(found.values())
    return []


def _judged(
    device: runtime.Device,
    bundle: runtime.Bundle,
    family: Family,
    specialization: str,
    artifacts: Sequence[runtime.Artifact],
) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates that are right on the family's inputs, and why others are left out."""
    found, wrong = [], {}
    for artifact in artifacts:
        point = artifact.manifest.facts["tune"]["point"]
        name = tuning_file.flow(point)
        try:
            kernel = device.load_artifact(bundle, artifact)
        except runtime.Poisoned:
            raise
        except runtime.GristmillError as error:
            wrong[name] = str(error)
            continue
        result = judge(kernel, family, specialization, _SEED)
        if result.status == "ok":
            found.append(Candidate(point, kernel))
        else:
            wrong[name] = f"{result.status}: {result.reason}"
    return found, wrong


def _problem(
    device: runtime.Device,
    family: Family,
    candidates: Sequence[Candidate],
    sizes: Mapping[str, int],
    declared: Mapping[str, Any],
    options: argparse.Namespace,
) -> Problem:
    """Measure all candidates on one problem."""
    first = candidates[0].kernel.manifest
    for name in sizes.keys() - {p.name for p in first.params}:
        raise CommandError(f"{family.name} has no parameter {name} (--sizes)")
    args = problem(first, sizes, declared["arguments"], np.random.default_rng(_SEED))
    checked, wrong = _wrong_here(family, candidates, args)
    right = {c.name: c for c in candidates if c.name not in wrong}
    if not right:
        raise CommandError(f"{family.name} {dict(sizes)}: every candidate is wrong")
    given = uploaded(device, first, args)
    turns = rotated(device, first, args, given, declared.get("rotating", ()))
    runners = {
        name: recorded(device, *([(c.kernel, turn)] for turn in turns)) for name, c in right.items()
    }
    times = race(runners, options.rounds)
    equal = ties(times, options.by)
    has = device.capabilities

    def rank(name: str) -> float:
        return estimate(right[name].kernel.manifest, has, sizes) or 0.0

    winner = min(equal, key=rank)  # of equals the first in declared order
    points = {c.name: c.point for c in candidates}
    return Problem(
        dict(sizes), points, times, scores(times, options.by), equal, right[winner], wrong, checked
    )


def _wrong_here(
    family: Family, candidates: Sequence[Candidate], args: dict[str, Any]
) -> tuple[bool, dict[str, str]]:
    """Which candidates are wrong on the problem itself; whether that was found out for all."""
    wrong: dict[str, str] = {}
    if sum(v.size for v in args.values() if isinstance(v, np.ndarray)) > LARGE:
        return False, wrong
    references = References(family, args)
    for candidate in candidates:
        manifest = candidate.kernel.manifest
        dtypes = {p.name: DTYPES[p.dtype] for p in manifest.params}
        given = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in args.items()}
        begin = time.perf_counter()
        expected = references.of(manifest.constexprs)
        long = time.perf_counter() - begin > LONG
        try:
            candidate.kernel(*given.values())
        except runtime.Poisoned:
            raise
        except runtime.GristmillError as error:
            wrong[candidate.name] = str(error)
            continue
        for name, want in expected.items():
            if not compare(given[name], want, dtypes[name]).ok:
                wrong[candidate.name] = f"{name} is out of its bound"
        if long:
            return False, wrong
    return True, wrong


def _shape(made: Problem) -> dict[str, Any]:
    """A problem as the file has it."""
    measured: list[dict[str, Any]] = []
    for name in sorted(made.times, key=lambda name: made.scores[name]):
        times = made.times[name]
        row: dict[str, Any] = {"constexprs": made.points[name], "ms": _ms(times.median)}
        row["score"] = float(f"{made.scores[name]:.3f}")
        row |= {"best": _ms(times.best), "spread": float(f"{times.spread:.2g}")}
        row["rounds"] = len(times.rounds)
        measured.append(row | ({"equal": True} if name in made.equal else {}))
    measured += [
        {"constexprs": made.points[name], "wrong": why} for name, why in made.wrong.items()
    ]
    return {
        "sizes": made.sizes,
        "winner": made.winner.point,
        "measured": measured,
    }


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1e3:.4g}")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _text(made: Problem) -> str:
    lines = [["  constexprs", "median", "best", "spread", "score", "verdict"]]
    for name in sorted(made.times, key=lambda name: made.scores[name]):
        t = made.times[name]
        verdict = "winner" if name == made.winner.name else "equal" if name in made.equal else ""
        numbers = [_us(t.median), _us(t.best), f"{t.spread:.3f}"]
        lines.append([f"  {name}", *numbers, f"{made.scores[name]:.2f}", verdict])
    lines += [[f"  {name}", "", "", "", "", f"wrong: {why}"] for name, why in made.wrong.items()]
    return f"  {tuning_file.flow(made.sizes)}\n" + table(lines, right=(1, 2, 3, 4))
