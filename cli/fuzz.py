"""`gristmill fuzz`: random programs on the devices of this machine, judged by the oracle.

Needs what builds (the extra `build`), for every program is compiled here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

from .errors import CHECK_FAILED, CommandError
from .table import table

_NEEDED = {"llvmlite": "llvmlite"}


def fuzz(arguments: argparse.Namespace) -> int:
    """The command."""
    missing = [name for name, module in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise CommandError(
            f"{', '.join(missing)} is not installed, and random programs are compiled here: "
            "pip install 'gristmill[build]'"
        )
    if arguments.first is not None and (arguments.program is not None or arguments.replay):
        raise CommandError("--first is where a run begins: --program and --replay are one program")
    if arguments.first and arguments.seed is None:
        raise CommandError("--first goes on with a seed: name it by --seed")
    from ..fuzz import session

    seed = int.from_bytes(os.urandom(4), "little") if arguments.seed is None else arguments.seed
    programs, seconds = arguments.programs, arguments.seconds
    if arguments.program is not None:
        programs, seconds = 1, None
    elif programs is None and seconds is None:
        seconds = 60.0
    choice = session.Choice(
        seed,
        programs,
        seconds,
        first=arguments.first or arguments.program or 0,
        timeout=arguments.timeout,
        shrink_seconds=arguments.shrink,
        jobs=arguments.jobs or len(os.sched_getaffinity(0)),
        out=Path(arguments.out),
    )
    devices = arguments.device or at_hand()
    if arguments.replay is not None:
        return _replay(Path(arguments.replay), devices, choice, arguments.json)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    tallies = session.session(devices, choice, tell)
    ran = sum(t.programs for t in tallies)
    absent = [t.missing for t in tallies if t.missing and not t.programs and arguments.device]
    if not ran:
        raise CommandError("; ".join(absent) or "no program ran on any device")
    if arguments.json:
        found = {"seed": seed, "first": choice.first, "targets": [t.as_dict() for t in tallies]}
        print(json.dumps(found, indent=2))
    else:
        print(_text(tallies))
        print(f"seed {seed}")
    ended = any(t.missing and t.programs for t in tallies)
    if ended or any(t.findings for t in tallies):
        return CHECK_FAILED
    if absent:
        raise CommandError("; ".join(absent))
    return 0


def at_hand() -> list[str]:
    """Every target of this machine, by the names that open it."""
    from .. import runtime

    found = [d.spec for d in runtime.find_devices() if not d.missing and d.spec != "null"]
    return ["python", "scalar", *found]


def _replay(path: Path, devices: list[str], choice: object, as_json: bool) -> int:
    from ..fuzz import program, session

    assert isinstance(choice, session.Choice)
    try:
        text = path.read_text()
        if path.suffix != ".python":
            program.from_text(text, str(path))
    except (program.CaseError, UnicodeDecodeError) as error:
        raise CommandError(str(error)) from error
    devices = ["python"] if path.suffix == ".python" else [d for d in devices if d != "python"]
    results = session.replay(devices, text, choice)
    if as_json:
        rows = [{"device": d, "kind": o.kind, "rule": o.rule, "text": o.text} for d, o in results]
        print(json.dumps({"file": str(path), "results": rows}, indent=2))
    else:
        for device, outcome in results:
            print(f"{device}: {outcome}")
    if all(outcome.kind == "refused" for _, outcome in results):
        raise CommandError("no device ran it")
    return 0 if all(outcome.good for _, outcome in results) else CHECK_FAILED


def _text(tallies: list) -> str:
    rows = [["device", "programs", "mismatches", "invalid", "crashes", "refused", "a second"]]
    for t in tallies:
        found = t.as_dict()
        counts = [str(found[n]) for n in ("programs", "mismatches", "invalid", "crashes")]
        rate = f"{t.programs / t.seconds:.1f}" if t.seconds else ""
        rows.append([t.device, *counts, str(sum(t.refused.values())), t.missing or rate])
    return table(rows, right=(1, 2, 3, 4, 5))
