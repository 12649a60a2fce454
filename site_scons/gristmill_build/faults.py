"""Kernels that cannot even be planned: a file that is not Python, a configuration that is wrong.

Each is a node of its own that fails, so that with -k all other kernels are built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from SCons.Node.Alias import default_ans

from .options import Choice
from .plan import Plan
from .sources import module_sources
from .steps import Step, guarded
from .workshop import StepError

PREFIX = "kernel "  # of a node's name; no file and no job is called so


def sources(
    env: Any, root: Path, nodes: Plan, tolerant: bool
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """The files that the modules of a plan are made of, by module, and a failing node for each
    kernel one of whose files is not Python. ConfigError for the first of these if not `tolerant`.
    """
    files: dict[str, tuple[str, ...]] = {}
    wrong: dict[str, list[str]] = {}
    failing: dict[str, Any] = {}
    for row in {step.row.kernel: step.row for step in nodes.traces}.values():
        if row.module not in files:
            wrong[row.module] = []
            files[row.module] = module_sources(
                root, row.module, wrong[row.module] if tolerant else None
            )
        if wrong[row.module]:
            failing[row.kernel] = node(env, row.kernel, "; ".join(wrong[row.module]))
    return files, failing


def node(env: Any, kernel: str, message: str) -> Any:
    """The node of a kernel, which fails. It is made once."""
    if found := default_ans.lookup(PREFIX + kernel):
        return found

    @guarded("refuse")
    def fail(target: Any, source: Any, env: Any) -> None:
        raise StepError(message)

    step = Step(fail, "gristmill fault 1", lambda target, source, env: "")
    return env.AlwaysBuild(env.Alias(PREFIX + kernel, [], step))


def unconfigured(env: Any, choice: Choice) -> list[Any]:
    """The nodes of the chosen kernels whose configuration is wrong."""
    return [node(env, kernel, message) for kernel, message in choice.faults.items()]
