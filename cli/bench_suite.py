"""`gristmill bench --suite NAME`: the rows of a suite (`suite`), each beside its peers.

A kernel is judged by its family's inputs first; what is wrong is told, not timed. Kernels and peers
take turns; times are medians of rounds, out of recordings of 20 ms or more. The ratio is the time
of the fastest peer over the kernel's: above 1 the kernel is faster.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from .. import runtime
from ..kernels import families
from ..store.expressions import LARGEST
from .check import judge
from .errors import CommandError
from .measuring import Runner, race, recorded
from .peers import PEERS, AbsentError, Setting
from .problem import arguments as problem
from .problem import moved, rotated, size_of_first, uploaded
from .suite import Launch, Row, load, stated
from .suite_parts import computed, fail, size
from .table import table

_SEED = 0
_OURS = "kernel"
_OPTION = "kernel, with sizes "


@dataclass
class Result:
    """A row. seconds: of one piece of work; peers: theirs; best: the further sizes that it took.
    status: ok, refused, wrong, missing or failed; reason: why it was not measured."""

    name: str
    sizes: dict[str, int]
    status: str = "ok"
    target: str = ""
    seconds: float = 0.0
    bytes: int = 0
    operations: int = 0
    best: dict[str, int] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    bound: float | None = None
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """Time of the fastest peer over the kernel's; None without one."""
        measured = self.status == "ok" and self.peers
        return min(self.peers.values()) / self.seconds if measured else None

    @property
    def short(self) -> bool:
        """Whether it misses its bound."""
        return self.bound is not None and self.ratio is not None and self.ratio < self.bound


def bench_suite(options: argparse.Namespace) -> int:
    """The command."""
    suite = load(options.suite)
    wanted = set(options.kernel)
    rows = [r for r in suite.rows if not wanted or wanted & _names(r)]
    if not rows:
        raise CommandError(f"suite {suite.name} has no rows of {', '.join(options.kernel)}")
    bundle = runtime.open_bundle(options.bundle)
    results: list[Result] = []
    with runtime.open_device(options.device or suite.device) as device:
        has = device.capabilities
        for row in rows:
            results.append(_measured(device, bundle, row, options.rounds))
            if not options.json:
                print(_line(results[-1]), flush=True)
    if not any(r.status == "ok" for r in results):
        raise CommandError("nothing was measured; " + "; ".join({r.reason for r in results}))
    if options.json:
        plain = [{**asdict(r), "ratio": r.ratio, "short": r.short} for r in results]
        about = {"suite": suite.name, "device": has.device, "name": has.name, "driver": has.driver}
        about |= {"bundle": bundle.digest}
        print(json.dumps({**about, "rows": plain, "means": _means(rows, results)}, indent=2))
        return 0
    print(f"\n{has.name}, {has.driver}, suite {suite.name}")
    print(table([_HEAD, *map(_cells, results)], right=(2, 3, 4, 6)))
    for mean in _means(rows, results):
        print(_mean_line(mean))
    bounded = [r for r in results if r.bound is not None and r.ratio is not None]
    print(f"{sum(r.short for r in bounded)} of {len(bounded)} below their bound")
    return 0


def _means(rows: list[Row], results: list[Result]) -> list[dict[str, Any]]:
    """The geometric means of ratios over the sizes of a row, where one is to be reached."""
    groups: dict[tuple[str, str], list[tuple[Row, Result]]] = {}
    for row, result in zip(rows, results, strict=True):
        if row.mean is not None:
            groups.setdefault((row.where, result.name), []).append((row, result))
    found = []
    for (_, name), members in groups.items():
        ratios = [r.ratio for _, r in members if r.ratio is not None]
        mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None
        bound = members[0][0].mean
        whole = len(ratios) == len(members)
        short = mean is None or not whole or mean < (bound or 0.0)
        found.append({"name": name, "mean": mean, "of": len(ratios), "rows": len(members)})
        found[-1] |= {"bound": bound, "short": short}
    return found


def _mean_line(mean: dict[str, Any]) -> str:
    told = "none" if mean["mean"] is None else f"{mean['mean']:.3f}"
    verdict = " missed" if mean["short"] else ""
    return (
        f"{mean['name']}: geometric mean of the ratios {told} "
        f"({mean['of']} of {mean['rows']} rows), bound {mean['bound']:.2f}{verdict}"
    )


def _names(row: Row) -> set[str]:
    launches = row.launches
    return {n for x in launches for n in (x.kernel, f"{x.kernel}/{x.specialization}")}


def _measured(device: runtime.Device, bundle: runtime.Bundle, row: Row, rounds: int) -> Result:
    result = Result(row.name, dict(row.sizes), bound=row.bound)
    try:
        kernels = [_judged(device, bundle, launch, row) for launch in row.launches]
        _times(device, row, kernels, rounds, result)
    except runtime.Refused as error:
        result.status, result.reason = "refused", str(error.refusal)
    except runtime.ArtifactMissing as error:
        result.status, result.reason = "missing", str(error)
    except _WrongError as error:
        result.status, result.reason = "wrong", str(error)
    except runtime.Poisoned:
        raise  # no other row can be measured
    except runtime.GristmillError as error:
        result.status, result.reason = "failed", str(error)
    except MemoryError as error:
        result.status, result.reason = "failed", f"the host is out of memory: {error}"
    return result


Work = tuple[runtime.LoadedKernel, list[Any]]


class _WrongError(Exception):
    """A kernel that its family's reference finds wrong."""


def _judged(
    device: runtime.Device, bundle: runtime.Bundle, launch: Launch, row: Row
) -> runtime.LoadedKernel:
    """The kernel of a launch, once it is right on its family's inputs."""
    artifacts = bundle.artifacts(launch.kernel, launch.specialization)
    params = {p.name for p in artifacts[0].manifest.params}
    sizes = {name: size for name, size in row.sizes.items() if name in params}
    kernel = device.load(bundle, launch.kernel, launch.specialization, sizes=sizes or None)
    family = families().get(launch.kernel)
    if family is not None:
        verdict = judge(kernel, family, launch.specialization, _SEED)
        if verdict.status != "ok":
            raise _WrongError(f"{launch.kernel} {launch.specialization}: {verdict.reason}")
    return kernel


def _times(
    device: runtime.Device,
    row: Row,
    kernels: list[runtime.LoadedKernel],
    rounds: int,
    result: Result,
) -> None:
    """Measure a row: all of its further sizes take turns with the peers."""
    host: dict[str, Any] = {}
    turns: list[list[Work]] = []
    pool = _Pool(device)
    runners: dict[str, Runner] = {}
    tried: dict[str, dict[str, int]] = {}
    for further in row.best_of:
        sizes = {**row.sizes, **further}
        launches, host, total = _prepared(pool, row, kernels, sizes)
        turns = _turns(device, row, launches, host)
        name = _OPTION + str(further) if further else _OURS
        tried[name] = dict(further)
        runners[name] = recorded(device, *turns)
        names = {**sizes, "size": size_of_first(kernels[0].manifest)}
        result.bytes = computed(row.where, row.bytes, names) if row.bytes else total
        if row.operations:
            result.operations = computed(row.where, row.operations, sizes)
    manifest = kernels[0].manifest
    setting = Setting(device, manifest, host, row.sizes, result.bytes, len(turns))
    for name in row.against:
        try:
            runners[name] = PEERS[name](setting)
        except AbsentError as error:
            result.absent[name] = str(error)
    times = race(runners, rounds)
    ours = min(tried, key=lambda name: times[name].median)
    result.target, result.best = manifest.target, tried[ours]
    result.seconds = times[ours].median
    result.peers = {name: times[name].median for name in row.against if name in times}


class _Pool:
    """The arguments of a row, which what is tried for it shares."""

    def __init__(self, device: runtime.Device) -> None:
        self.device, self.rng = device, np.random.default_rng(_SEED)
        self.arrays: dict[Any, np.ndarray] = {}
        self.buffers: dict[int, runtime.Buffer] = {}


def _prepared(
    pool: _Pool, row: Row, kernels: list[runtime.LoadedKernel], sizes: dict[str, int]
) -> tuple[list[tuple[runtime.LoadedKernel, list[Any]]], dict[str, Any], int]:
    """The launches of a row with their arguments on the device, those of the first one on the host
    as well, and the bytes that all of them move."""
    launches, total = [], 0
    known: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for launch, kernel in zip(row.launches, kernels, strict=True):
        if launch.when is not None and not computed(row.where, launch.when, sizes):
            continue
        shared = dict(_shared(row, launch, known))
        own = {n: v for n, v in launch.arguments.items() if n not in shared}
        declared = {n: stated(f"{row.where}, {n}", value, sizes) for n, value in own.items()}
        declared |= dict.fromkeys(shared, 0)
        for param in kernel.manifest.params:
            length = declared.get(param.name)
            if param.kind != "scalar" and isinstance(length, int) and not size(length):
                expected = f"a buffer's elements, 0 to {LARGEST}"
                fail(f"{row.where}, {param.name}", f"expected {expected}, got {length}")
        args = problem(kernel.manifest, sizes, declared, pool.rng, pool.arrays) | shared
        total += moved(kernel.manifest, args)
        launches.append((kernel, uploaded(pool.device, kernel.manifest, args, pool.buffers)))
        first = first or args
        known |= args
    return launches, first, total


def _shared(row: Row, launch: Launch, known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of earlier launches that a launch has."""
    for name, value in launch.arguments.items():
        if isinstance(value, dict) and "of" in value:
            if value["of"] not in known:
                raise CommandError(f"{row.where}: {name} is of {value['of']!r}, which is not there")
            yield name, known[value["of"]]


def _turns(
    device: runtime.Device, row: Row, launches: list[Work], first: dict[str, Any]
) -> list[list[Work]]:
    """The launches, and the same with other copies of what rotates."""
    kernel, given = launches[0]
    for name in row.rotating:
        if not isinstance(first.get(name), np.ndarray):
            raise CommandError(f"{row.where}: {name} is no buffer of the first launch")
    made = rotated(device, kernel.manifest, first, given, row.rotating)
    return [[(kernel, args), *launches[1:]] for args in made]


_HEAD = ["kernel", "sizes", "time", "rate", "peer", "", "ratio", "bound"]


def _cells(r: Result) -> list[str]:
    sizes = ", ".join(f"{name} {size}" for name, size in {**r.sizes, **r.best}.items())
    if r.status != "ok":
        return [r.name, sizes, "", "", "", "", "", f"{r.status}: {r.reason}"]
    speed, unit = (r.operations or r.bytes) / r.seconds, "FLOP/s" if r.operations else "B/s"
    scale, prefix = (1e12, "T") if r.operations and speed > 1e12 else (1e9, "G")
    peer = min(r.peers, key=lambda name: r.peers[name], default="")
    bound = "" if r.bound is None else f"{r.bound:.2f}" + (" missed" if r.short else "")
    return [
        r.name,
        sizes,
        f"{r.seconds * 1e6:.1f} us",
        f"{speed / scale:.1f} {prefix}{unit}",
        f"{r.peers[peer] * 1e6:.1f} us" if peer else "",
        peer or "; ".join(r.absent.values()),
        "" if r.ratio is None else f"{r.ratio:.3f}",
        bound,
    ]


def _line(r: Result) -> str:
    return "  ".join(filter(None, _cells(r)))
