"""The process that runs programs on one target: a driver that crashes ends it, and nothing else.

Messages are pickles with their length in front (`backends.pool`). The first one sent tells the
target's name and traits, or why it cannot be opened. Then each job is answered:
    ("number", seed, number) -> Outcome of that program
    ("program", text)        -> Outcome of a program in its file form (`program.to_text`)
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from typing import Any

from ..backends.pool import receive, send
from ..ir import interp
from .judge import UnjudgedError, compare
from .outcome import Outcome, rule_of
from .plan import program as planned
from .program import Program, from_text
from .source_runner import SourceRunner
from .targets import CrashError, Faults, InvalidError, RefusedError, Runner, open_runner


def judged(runner: Runner, program: Program) -> Outcome:
    """Run a program on a target and beside it on the oracle."""
    expected = program.arguments()
    try:
        report = interp.run(program.kernel, expected, program.grid)
    except interp.InterpBudgetExceeded as error:
        return Outcome("unsound", "endless", str(error))
    if report.problems:
        return Outcome("unsound", str(report.problems[0].kind), str(report.problems[0]))
    try:
        actual, faults = runner.run(program)
    except RefusedError as error:
        return Outcome("refused", "", str(error))
    except CrashError as error:
        return Outcome("crash", rule_of(error), str(error))
    except InvalidError as error:
        return Outcome("invalid", rule_of(error), str(error))
    wanted = Faults.of(report.faults)
    if faults != wanted:
        text = f"first fault and number of faults: got {tuple(faults)}, expected {tuple(wanted)}"
        return Outcome("mismatch", "faults", text)
    try:
        differences = compare(program, actual, expected, runner.traits.numerics)
    except UnjudgedError as error:
        return Outcome("unsound", "unjudged", str(error))
    if differences:
        text = "; ".join(d.text for d in differences)
        return Outcome("mismatch", differences[0].rule, text)
    return Outcome("ok")


def answer(runner: Runner, job: tuple[Any, ...]) -> Outcome:
    """The outcome of a job; what it raises is one too."""
    try:
        if isinstance(runner, SourceRunner):
            return runner.answer(job)
        if job[0] == "number":
            _, seed, number = job
            return judged(runner, planned(seed, number, runner.traits))
        return judged(runner, from_text(job[1]))
    except Exception as error:  # whatever a compiler or a driver's binding raises is a finding
        last = traceback.format_exc(limit=-3)
        return Outcome("error", rule_of(error), f"{type(error).__name__}: {error}\n{last}")


def main() -> None:
    """Serve jobs for the target named by the only argument until standard input closes."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get into the results
    try:
        runner = open_runner(sys.argv[1])
    except Exception as error:  # the caller says why there is no such target
        send(results, pickle.dumps(f"{type(error).__name__}: {error}"))
        return
    send(results, pickle.dumps((runner.name, runner.traits)))
    while (message := receive(sys.stdin.buffer)) is not None:
        send(results, pickle.dumps(answer(runner, pickle.loads(message))))
    ending = threading.Timer(10, os._exit, (0,))  # a driver that hangs at its end is not waited for
    ending.daemon = True
    ending.start()
    runner.close()


if __name__ == "__main__":
    main()
