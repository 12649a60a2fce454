"""`gristmill check --parity`: small graphs through planner and engine, beside the graph oracle.

Status words are those of a check of kernels. A fixture whose kernels the bundle or the device lacks
is refused, and says for each node what is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from .. import runtime
from ..models.parity import FIXTURES, Result, judge
from .check import usable
from .errors import CHECK_FAILED, CommandError
from .table import milliseconds, table

if TYPE_CHECKING:
    from ..ir.targets import Capabilities


def parity(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.kernel:
        raise CommandError("--parity checks graphs: name no kernels")
    bundle = runtime.open_bundle(arguments.bundle)
    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    has, results = check_each(arguments.device, bundle, seed)
    good = {"ok"} if arguments.no_refusals else {"ok", "refused"}
    passed = all(r.status in good for r in results) and any(r.status == "ok" for r in results)
    counts = Counter(r.status for r in results)
    if arguments.json:
        report = {
            "device": f"{has.device}: {has.name}",
            "driver": has.driver,
            "bundle": bundle.digest,
            "seed": seed,
            "passed": passed,
            "counts": dict(counts),
            "results": [_row(result) for result in results],
        }
        print(json.dumps(report, indent=2))
    else:
        print(f"{has.device}: {has.name}")
        print(_text(results))
        text = ", ".join(f"{n} {status}" for status, n in counts.items()) + f" (seed {seed})"
        print(text if passed else f"the check failed: {text}")
    return 0 if passed else CHECK_FAILED


def check_each(spec: str, bundle: runtime.Bundle, seed: int) -> tuple[Capabilities, list[Result]]:
    """All fixtures, on a device that is opened again where one has poisoned it."""
    device, results = runtime.open_device(spec), []
    has = device.capabilities
    try:
        if has.device == "null":
            raise CommandError("the null device computes nothing: there is nothing to check")
        for fixture in FIXTURES:
            results.append(judge(device, bundle, fixture, seed))
            if results[-1].status == "failed" and not usable(device):
                with contextlib.suppress(runtime.GristmillError):  # the next results tell
                    device = runtime.open_device(spec)
    finally:
        device.close()
    return has, results


def _row(result: Result) -> dict[str, object]:
    finite = {"error": result.error if result.error < float("inf") else None}
    return {**asdict(result), **finite}


def _text(results: list[Result]) -> str:
    rows = [["fixture", "launches", "error", "bound", "time", "verdict"]]
    for r in results:
        numbers = [""] * 4
        if r.launches:
            launches, seconds = str(r.launches), milliseconds(r.seconds)
            numbers = [launches, f"{r.error:.3g}", f"{r.bound:.3g}", seconds]
        verdict = f"{r.status}: {r.reason}" if r.reason else r.status
        rows.append([r.name, *numbers, verdict])
    return table(rows, right=(1, 2, 3, 4))
