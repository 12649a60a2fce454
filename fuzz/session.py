"""A session: programs on targets until a number or a time is reached, findings made small.

Each target has a process of its own; as many of them as there are `jobs` are at work at once.
"""

from __future__ import annotations

import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..store.files import write_atomic
from . import source
from .client import Client, TargetError
from .outcome import Outcome
from .plan import kind_of, program
from .program import Program, to_text
from .shrink import shrink, shrink_source, size

_TOLD = 60.0  # seconds between two words on how far a target is
_SHRUNK = 4  # findings of one target that are made small; more of them are mostly the same


@dataclass(frozen=True)
class Choice:
    """What to do. programs: of each target, None for as many as `seconds` allow. first: the number
    of the first program. shrink_seconds: for one finding. out: where findings are written."""

    seed: int
    programs: int | None = None
    seconds: float | None = None
    first: int = 0
    timeout: float = 120.0
    shrink_seconds: float = 60.0
    jobs: int = 1
    out: Path = Path("fuzz-findings")


@dataclass
class Finding:
    """A program that failed: on which target, its number, what it showed, where it is stored."""

    device: str
    number: int
    outcome: Outcome
    file: str
    ops: int
    command: str


@dataclass
class Tally:
    """What one target showed. programs: that ran, well or not; refused: reasons, with counts."""

    device: str
    name: str = ""
    programs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    missing: str = ""

    def add(self, number: int, outcome: Outcome) -> None:
        self.outcomes[outcome.kind] += 1
        if outcome.kind == "refused":
            self.refused[outcome.text] += 1
        else:
            self.programs += 1
            self.kinds[kind_of(number)] += 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON; crashes are processes that ended or hung, and errors raised."""
        counts = self.outcomes
        return {
            "device": self.device,
            "name": self.name,
            "programs": self.programs,
            "mismatches": counts["mismatch"],
            "invalid": counts["invalid"],
            "crashes": counts["crash"] + counts["hang"] + counts["error"],
            "unsound": counts["unsound"],
            "refused": dict(self.refused),
            "kinds": dict(self.kinds),
            "seconds": round(self.seconds, 1),
            "findings": [
                {
                    "number": f.number,
                    "outcome": str(f.outcome),
                    "file": f.file,
                    "ops": f.ops,
                    "command": f.command,
                }
                for f in self.findings
            ],
            "missing": self.missing,
        }


Tell = Callable[[str], None]


def session(devices: Sequence[str], choice: Choice, tell: Tell) -> list[Tally]:
    """Run; one tally per target, in their order. tell: is told of findings as they come, and each
    minute of how far a target is."""
    stop = threading.Event()
    with ThreadPoolExecutor(max(1, min(choice.jobs, len(devices)))) as pool:
        futures = [pool.submit(_target, d, choice, len(devices), tell, stop) for d in devices]
        try:
            return [f.result() for f in futures]
        finally:
            stop.set()  # Ctrl-C: the others end after their present program


def _target(device: str, choice: Choice, targets: int, tell: Tell, stop: threading.Event) -> Tally:
    """All programs of one target, one at least. Of the time, targets that wait for each other get
    equal parts."""
    tally = Tally(device)
    begin = time.monotonic()
    share = 1.0 if choice.jobs >= targets else choice.jobs / targets
    end = None if choice.seconds is None else begin + choice.seconds * share
    told = begin
    try:
        client = Client(device, choice.timeout)
    except TargetError as error:
        tally.missing = str(error)
        return tally
    tally.name = client.name
    try:
        number = choice.first
        while not stop.is_set():
            if choice.programs is not None and number - choice.first >= choice.programs:
                break
            if end is not None and time.monotonic() >= end and number > choice.first:
                break
            outcome = client.ask("number", choice.seed, number)
            tally.add(number, outcome)
            if not outcome.good:
                tally.findings.append(_found(client, choice, number, outcome, tally, tell))
            number += 1
            if time.monotonic() >= told + _TOLD:
                told = time.monotonic()
                tell(f"{device}: {number - choice.first} programs, the next is {number}")
    except TargetError as error:  # it cannot be started again
        tally.missing = str(error)
    finally:
        client.close()
    tally.seconds = time.monotonic() - begin
    return tally


def _found(
    client: Client, choice: Choice, number: int, outcome: Outcome, tally: Tally, tell: Tell
) -> Finding:
    """Make a finding small, store it and say how to repeat it."""
    device = client.spec
    tell(f"{device}: program {number} of seed {choice.seed}: {outcome}")
    endless = outcome.kind == "hang" and choice.timeout * 5 > choice.shrink_seconds
    reduce = len(tally.findings) < _SHRUNK and outcome.kind != "unsound" and not endless
    form = _source if device == "python" else _kernel
    try:
        text, ops, found = form(client, choice, number, outcome, reduce)
    except TargetError:
        text, ops, found = form(client, choice, number, outcome, False)
    suffix = ".python" if device == "python" else ".kir"
    stem = re.sub(r"[^\w.]+", "-", f"{device}-{choice.seed}-{number}")
    file = choice.out / f"{stem}{suffix}"
    command = f"gristmill fuzz --replay {shlex.quote(str(file))} --device {shlex.quote(device)}"
    whole_command = f"gristmill fuzz --seed {choice.seed} --program {number} --device {device}"
    remarks = [str(found), f"found on {client.name} by {whole_command}"]
    lines = [f"# {line}" for remark in remarks for line in remark.splitlines()]
    stored = str(file)
    try:
        write_atomic(file, "\n".join([*lines, text]).encode())
    except OSError as error:  # what was found is told all the same
        tell(f"{device}: {error}")
        stored, command = "", whole_command
    finding = Finding(device, number, found, stored, ops, command)
    what = "statements" if device == "python" else "ops"
    tell(f"{device}: {ops} {what} are left of it; repeat it with\n  {command}")
    return finding


def _kernel(
    client: Client, choice: Choice, number: int, outcome: Outcome, reduce: bool
) -> tuple[str, int, Outcome]:
    """Text, size and outcome of a program that failed, made small where that is wanted."""
    found, small = outcome, program(choice.seed, number, client.traits)
    if reduce:
        small, found = shrink(small, outcome, lambda p: ask(client, p), choice.shrink_seconds)
    return to_text(small), size(small.kernel), found


def _source(
    client: Client, choice: Choice, number: int, outcome: Outcome, reduce: bool
) -> tuple[str, int, Outcome]:
    found, text = outcome, source.source(choice.seed, number)
    if reduce:
        text, found = shrink_source(
            text, outcome, lambda t: client.ask("program", t), choice.shrink_seconds
        )
    return text, len(text.splitlines()), found


def ask(client: Client, tried: Program) -> Outcome:
    """The outcome of a program on a target."""
    return client.ask("program", to_text(tried))


def replay(devices: Sequence[str], text: str, choice: Choice) -> list[tuple[str, Outcome]]:
    """A stored program on targets; a target that is not there says so as a refusal."""
    results = []
    for device in devices:
        try:
            client = Client(device, choice.timeout)
        except TargetError as error:
            results.append((device, Outcome("refused", "", str(error))))
            continue
        try:
            results.append((device, client.ask("program", text)))
        finally:
            client.close()
    return results
