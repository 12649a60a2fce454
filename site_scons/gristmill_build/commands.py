"""The jobs that are no build: demo, test, lint. And the check of what was asked for."""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import SCons.Errors
from SCons.Node.Alias import default_ans

from . import faults, packs, web, wheels
from .config import Config
from .document import nearest
from .options import Choice, UsageError
from .steps import Step

Command = Sequence[str]


def lint_commands(root: Path) -> list[Command]:
    """Style and types, each by the tool that pyproject.toml configures."""
    return [_python("ruff", "check", "."), _python("mypy"), _python("pyright")]


def test_commands(root: Path, tests: str, jobs: int) -> list[Command]:
    """Lint and types, then all tests but the long ones, on as many workers as the build has."""
    wanted = shlex.split(tests) or ["tests"]
    short = ["-m", "not slow", "--durations", "10"]
    return [*lint_commands(root), _python("pytest", "-n", str(jobs), *short, *wanted)]


def fuzz_commands(tests: str, jobs: int) -> list[Command]:
    """The long tests: sweeps over all values and thousands of random kernels."""
    wanted = shlex.split(tests) or ["tests"]
    return [_python("pytest", "-n", str(jobs), "-m", "slow", *wanted)]


def declare(env: Any, root: Path, choice: Choice, bundle: Any) -> None:
    """The aliases `all`, `pack`, `wheels`, `web`, `demo`, `test`, `fuzz` and `lint`."""
    jobs = env["WORKSHOP"].jobs
    device = ["--device", choice.device] if choice.device else []
    words = choice.words.replace(",", " ").split()
    demo = _python("gristmill.cli.main", "demo", "--bundle", choice.out, *device, *words)
    env.Alias("all", bundle)
    for job in (web.JOB, packs.JOB, wheels.JOB):
        env.Alias(job)  # what it makes is declared where it is asked for
    _job(env, "demo", [bundle], lambda: [demo], root)
    _job(env, "test", [bundle], lambda: test_commands(root, choice.tests, jobs), root)
    _job(env, "fuzz", [bundle], lambda: fuzz_commands(choice.tests, jobs), root)
    _job(env, "lint", [], lambda: lint_commands(root), root)


def check_names(wanted: Iterable[Any], env: Any, config: Config) -> None:
    """Refuse a job or file that does not exist, with the nearest one that does."""
    jobs = [str(name) for name in default_ans if not str(name).startswith(faults.PREFIX)]
    for name in map(str, wanted):
        if name in jobs or os.path.exists(name):
            continue
        node = env.arg2nodes(name)[0]
        if node.has_builder() or node.is_derived() or _is_folder_of_results(env, name):
            continue
        meant = _option_for(name, config) or nearest(name, jobs)
        raise UsageError(f"there is nothing to build called {name!r}{meant}")


def _option_for(name: str, config: Config) -> str:
    """What selects the kernel or target of this name, which was given without its option."""
    targets = {*config.targets, *(row.backend for row in config.targets.values())}
    for option, known in (("kernel", config.kernels), ("target", targets)):
        if name in known:
            return f"; did you mean {option}={name}?"
    return ""


def _is_folder_of_results(env: Any, name: str) -> bool:
    node = env.fs.Entry(name).disambiguate()
    return bool(getattr(node, "entries", {}).keys() - {".", ".."})


def _python(module: str, *arguments: str) -> Command:
    return [sys.executable, "-m", module, *arguments]


def _job(
    env: Any, name: str, needs: list[Any], commands: Callable[[], list[Command]], root: Path
) -> None:
    def run(target: Any, source: Any, env: Any) -> None:
        run_all(name, commands(), root)

    step = Step(run, f"gristmill {name}", lambda target, source, env: "")
    env.AlwaysBuild(env.Alias(name, needs, step))


def run_all(name: str, commands: list[Command], root: Path) -> None:
    """Run every command, then fail if any of them did."""
    failed = []
    for command in commands:
        sys.stdout.write("$ " + shlex.join(["python", *command[1:]]) + "\n")
        sys.stdout.flush()
        if importlib.util.find_spec(command[2].partition(".")[0]) is None:
            failed.append(f"{command[2]} is not installed (pip install -e '.[build,test]')")
        elif status := subprocess.call(command, cwd=root):
            failed.append(f"{command[2]} ended with status {status}")
    if failed:
        raise SCons.Errors.BuildError(node=name, errstr="; ".join(failed))
