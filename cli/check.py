"""`gristmill check`: run every kernel of a bundle on a device and judge it by its reference.

A kernel is `ok`, `wrong` (an output left its bound), `failed` (the launch raised), `refused` (the
device lacks something; the reason is listed) or `unchecked` (no reference is known). Only ok and,
unless --no-refusals, refused are good; a check that ran nothing fails.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import json
import math
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import __version__, runtime
from ..ir.dtypes import DTYPES
from ..ir.targets import Capabilities
from ..kernels import families
from ..kernels.family import Family, compare
from .errors import CHECK_FAILED, CommandError
from .table import milliseconds, table

_NO_REFERENCE = "no reference is known; FAMILIES at the end of its module gives one"


@dataclass(frozen=True)
class Result:
    """One specialization. error and bound: of the element that came nearest to its bound."""

    kernel: str
    specialization: str
    status: str
    target: str = ""
    error: float = 0.0
    bound: float = 0.0
    cases: int = 0
    seconds: float = 0.0
    reason: str = ""


def check(arguments: argparse.Namespace) -> int:
    """The command."""
    bundle = runtime.open_bundle(arguments.bundle)
    wanted = select(bundle, arguments.kernel)
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    live = not arguments.json and sys.stderr.isatty()
    has, results = check_each(arguments.device, bundle, wanted, seed, live)
    head = f"{has.device}: {has.name}"
    good = {"ok"} if arguments.no_refusals else {"ok", "refused"}
    passed = all(r.status in good for r in results) and any(r.status == "ok" for r in results)
    if arguments.json:
        print(json.dumps(_report(has, bundle.digest, seed, results, passed), indent=2))
    else:
        print(head)
        print(_text(results))
        print(_closing(results, seed, passed))
    return 0 if passed else CHECK_FAILED


def check_each(
    spec: str, bundle: runtime.Bundle, wanted: list[tuple[str, str]], seed: int, live: bool
) -> tuple[Capabilities, list[Result]]:
    """Check specializations on a device, which is opened again where one has poisoned it, as long
    as that can be done. live: say on standard error which one it is at."""
    device, results = runtime.open_device(spec), []
    has = device.capabilities
    try:
        if has.device == "null":
            raise CommandError("the null device computes nothing: there is nothing to check")
        for kernel, specialization in wanted:
            if live:
                print(f"\r\x1b[K{kernel} {specialization}", end="", file=sys.stderr, flush=True)
            results.append(check_one(device, bundle, kernel, specialization, seed))
            if results[-1].status == "failed" and not usable(device):
                with contextlib.suppress(runtime.GristmillError):  # the next results tell
                    device = runtime.open_device(spec)
    finally:
        if live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        device.close()
    return has, results


def usable(device: runtime.Device) -> bool:
    """Whether a device that has failed still works; one that does not is closed."""
    try:
        device.memory()
    except runtime.Poisoned:
        device.close()
        return False
    return True


def select(bundle: runtime.Bundle, names: Iterable[str]) -> list[tuple[str, str]]:
    """(kernel, specialization) pairs of a bundle, restricted to KERNEL[/SPECIALIZATION] words."""
    known = [(kernel, spec) for kernel, specs in bundle.kernels().items() for spec in specs]
    found = []
    for name in names:
        kernel, slash, spec = name.partition("/")
        picked = [pair for pair in known if pair[0] == kernel and (not slash or pair[1] == spec)]
        if not picked:
            have = sorted({f"{k}/{s}" if slash else k for k, s in known})
            near = difflib.get_close_matches(name, have, 1, 0.5)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise CommandError(
                f"no kernel {name!r} in the bundle{meant} (it has {', '.join(have)})"
            )
        found += picked
    return list(dict.fromkeys(found)) or known


def check_one(
    device: runtime.Device, bundle: runtime.Bundle, kernel: str, specialization: str, seed: int
) -> Result:
    """Check one specialization on all inputs of its family."""
    family = families().get(kernel)
    if family is None:
        return Result(kernel, specialization, "unchecked", reason=_NO_REFERENCE)
    try:
        loaded = device.load(bundle, kernel, specialization)
    except runtime.Refused as error:
        return Result(kernel, specialization, "refused", reason=str(error.refusal))
    except runtime.GristmillError as error:
        return Result(kernel, specialization, "failed", reason=str(error))
    return judge(loaded, family, specialization, seed)


def judge(loaded: runtime.LoadedKernel, family: Family, specialization: str, seed: int) -> Result:
    """A loaded kernel on all inputs of its family."""
    manifest = loaded.manifest
    constexprs = dict(manifest.constexprs)
    dtypes = {p.name: DTYPES[p.dtype] for p in manifest.params}
    result = Result(family.name, specialization, "ok", manifest.target)
    for case, args in enumerate(family.inputs(np.random.default_rng(seed), constexprs)):
        expected = family.reference(args, constexprs)
        begin = time.perf_counter()
        try:
            loaded(*args.values())
        except runtime.GristmillError as error:
            return dataclasses.replace(result, status="failed", reason=f"case {case}: {error}")
        seconds = time.perf_counter() - begin
        result = dataclasses.replace(result, cases=case + 1, seconds=result.seconds + seconds)
        for name, want in expected.items():
            found = compare(args[name], want, dtypes[name])
            if _nearness(found.error, found.bound) >= _nearness(result.error, result.bound):
                result = dataclasses.replace(result, error=found.error, bound=found.bound)
            if not found.ok:
                place = f"case {case}, {name}[{found.first_wrong}]"
                return dataclasses.replace(
                    result,
                    status="wrong",
                    error=found.error,
                    bound=found.bound,
                    reason=f"{place} is out of its bound",
                )
    if not result.cases:
        return dataclasses.replace(result, status="unchecked", reason="its family has no inputs")
    return result


def _nearness(error: float, bound: float) -> float:
    if not error:
        return 0.0
    return error / bound if bound else math.inf


def _text(results: list[Result]) -> str:
    rows = [["kernel", "specialization", "target", "error", "bound", "time", "verdict"]]
    for r in results:
        numbers = ["", "", ""]
        if r.cases:
            numbers = [f"{r.error:.3g}", f"{r.bound:.3g}", milliseconds(r.seconds)]
        verdict = f"{r.status}: {r.reason}" if r.reason else r.status
        rows.append([r.kernel, r.specialization, r.target, *numbers, verdict])
    return table(rows, right=(3, 4, 5))


def _closing(results: list[Result], seed: int, passed: bool) -> str:
    counts = Counter(r.status for r in results)
    if not any(r.cases for r in results):
        return "nothing was checked: that is a failure"
    text = ", ".join(f"{n} {status}" for status, n in counts.items()) + f" (seed {seed})"
    return text if passed else f"the check failed: {text}"


def _report(
    has: Capabilities, digest: str, seed: int, results: list[Result], passed: bool
) -> dict[str, Any]:
    """All that somebody without the device needs to judge what it did."""
    rows = [
        {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in dataclasses.asdict(result).items()
        }
        for result in results
    ]
    counts = Counter(r.status for r in results)
    return {
        "device": f"{has.device}: {has.name}",
        "about": {
            "gristmill": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "host": f"{platform.machine()}, {platform.system()} {platform.release()}",
            "driver": has.driver,
            "targets": has.targets,
            "subgroup_sizes": has.subgroup_sizes,
            "features": sorted(has.features),
            "limits": dataclasses.asdict(has.limits),
            "facts": has.facts,
        },
        "bundle": digest,
        "seed": seed,
        "passed": passed,
        "counts": dict(counts),
        "results": rows,
    }
