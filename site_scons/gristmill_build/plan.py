"""The build nodes of a choice: what is traced, what is compiled, where the results go.

    OUT/kir/KERNEL/SPEC[.BACKENDn].kir and .loc.json      one Trace each
    OUT/TARGET/KERNEL/SPEC[.n].{kir,so,spv,ptx,cubin,hsaco} and .json     one Compile each
    OUT/TARGET/replay.so and .json                        one Replay for each cpu target
    OUT/bundle.json                                       the Bundle

After the declared variants of a target come those that won on its devices (`tuned`), or, with
tune=, all points of the declared space. A variant without constexprs of its own shares the trace of
the plain specialization. TARGET is the name of the target, with dots for its colons.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import notes
from .config import Config, KernelRow, TargetRow, path_name
from .constexprs import Constexprs
from .options import Choice

# Of an artifact in a bundle: its path, its manifest's, its line table's or "", its notes if any.
Row = list[Any]
THROUGH_LLVM = ("cpu", "ptx", "cubin", "hsaco")
# Backends with a module `replay` that makes a target's replay loop.
REPLAYED = ("cpu",)


@dataclass(frozen=True)
class Trace:
    """Kernel source to kernel IR. `stem`: path of the results without suffix."""

    row: KernelRow
    specialization: str
    constexprs: Constexprs
    stem: str

    @property
    def ir(self) -> str:
        return self.stem + ".kir"

    @property
    def locs(self) -> str:
        return self.stem + ".loc.json"


@dataclass(frozen=True)
class Made:
    """An artifact for one target and its manifest. `stem`: their path without suffix."""

    target: TargetRow
    tools: tuple[str, ...]
    stem: str

    @property
    def artifact(self) -> str:
        return self.stem + self.target.suffix

    @property
    def manifest(self) -> str:
        return self.stem + ".json"


@dataclass(frozen=True)
class Replay(Made):
    """The loop that replays recordings on a target, as an artifact of its own."""

    options: dict[str, Any]


@dataclass(frozen=True)
class Compile(Made):
    """Kernel IR to an artifact for one target. notes: what the index says of it beside its
    manifest (see `notes`)."""

    trace: Trace
    options: dict[str, Any]
    notes: dict[str, Any] = field(default_factory=dict)


def listed(step: Made) -> Row:
    """What a bundle lists of a step."""
    if not isinstance(step, Compile):
        return [step.artifact, step.manifest, ""]
    return [step.artifact, step.manifest, step.trace.locs, *([step.notes] if step.notes else [])]


def files(rows: list[Row]) -> list[str]:
    """The files of rows, each once."""
    return list(dict.fromkeys(name for row in rows for name in row[:3] if name))


@dataclass(frozen=True)
class Plan:
    """All nodes of a build. `compiles` are in the order of the bundle, `replays` follow."""

    traces: tuple[Trace, ...]
    compiles: tuple[Compile, ...]
    replays: tuple[Replay, ...]
    bundle: str

    @property
    def size(self) -> int:
        """How many files it makes."""
        return 2 * (len(self.traces) + len(self.compiles) + len(self.replays)) + 1


def plan(choice: Choice, config: Config) -> Plan:
    """The nodes that a choice asks for."""
    traces: dict[str, Trace] = {}
    compiles = []
    for row in choice.kernels:
        for specialization in row.specializations:
            for target in filter(row.builds_for, choice.targets):
                if choice.tune and not row.points(specialization, target):
                    continue
                for n, (trace, said) in enumerate(_variants(choice, row, specialization, target)):
                    trace = traces.setdefault(trace.stem, trace)
                    stem = f"{choice.out}/{target.folder}/{row.kernel}/{specialization}"
                    compiles.append(
                        Compile(
                            target,
                            tools(config, choice, target.backend),
                            stem + (f".{n}" if n else ""),
                            trace,
                            {"checks": choice.checks, **_route(choice, target.backend)},
                            said,
                        )
                    )
    replays = tuple(
        Replay(
            target,
            tools(config, choice, target.backend),
            f"{choice.out}/{target.folder}/replay",
            _route(choice, target.backend),
        )
        for target in choice.targets
        if target.backend in REPLAYED
    )
    return Plan(tuple(traces.values()), tuple(compiles), replays, f"{choice.out}/bundle.json")


def joined(first: Plan, second: Plan) -> Plan:
    """The nodes of both, those that they share once; the bundle is the first one's."""
    traces = {step.stem: step for step in (*first.traces, *second.traces)}
    compiles = {step.stem: step for step in (*first.compiles, *second.compiles)}
    replays = {step.stem: step for step in (*first.replays, *second.replays)}
    return Plan(
        tuple(traces.values()), tuple(compiles.values()), tuple(replays.values()), first.bundle
    )


def tools(config: Config, choice: Choice, backend: str) -> tuple[str, ...]:
    """The outside tools of a backend with their versions, by the chosen way to LLVM."""
    found = config.tools.get(backend, ())
    if backend == "spirv" and choice.spirv_codegen == "llc":
        from gristmill.backends.spirv_llc.llc import identity as llc

        return (*found, llc())
    if choice.llvm == "llvmlite":
        return found
    from gristmill.backends.llvm.external import identity

    return tuple(identity(choice.llvm) if tool.startswith("llvmlite ") else tool for tool in found)


def _route(choice: Choice, backend: str) -> dict[str, Any]:
    """The option that says how a backend makes code, where that is not the usual way."""
    if backend == "spirv" and choice.spirv_codegen != "direct":
        return {"spirv_codegen": choice.spirv_codegen}
    through = backend in THROUGH_LLVM and choice.llvm != "llvmlite"
    return {"llvm": choice.llvm} if through else {}


def _variants(
    choice: Choice, row: KernelRow, specialization: str, target: TargetRow
) -> Iterator[tuple[Trace, dict[str, Any]]]:
    """The variants of a specialization in their order, each with what the index says of it."""
    plain = row.specializations[specialization]
    where, declared = row.variants_for(specialization, target)
    winners = row.winners_for(specialization, target)
    won = [winner.constexprs for winner in winners]
    more = row.points(specialization, target) if choice.tune else won
    rows = dict(zip(map(_text, won), winners, strict=True))
    marks = [f".{path_name(where)}.{n}" if override else "" for n, override in enumerate(declared)]
    variants = [*zip(declared, marks, strict=True)]
    kind = "point" if choice.tune else "tuned"
    variants += [
        (point, f".{kind}.{target.folder}.{n}")
        for n, point in enumerate(more)
        if point not in declared
    ]
    for override, mark in variants:
        stem = f"{choice.out}/kir/{row.kernel}/{specialization}{mark}"
        trace = Trace(row, specialization, plain.with_(override), stem)
        yield trace, notes.of(row, override, rows.get(_text(override)), choice.tune)


def _text(constexprs: Constexprs) -> str:
    return json.dumps(constexprs, sort_keys=True)
