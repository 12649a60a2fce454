"""Declaring the build nodes of a choice to SCons."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gristmill.backends.stages import stage
from gristmill.ir.targets import BACKENDS
from gristmill.store.files import sweep, write_atomic

from . import faults, web
from .config import SUFFIXES, Config
from .constexprs import MADE_FROM
from .host import host
from .options import Choice, UsageError
from .plan import Compile, Plan, Replay, Trace, files, joined, listed, plan, tools

# Folders of the project that no build writes to.
SOURCES = (
    *("backends", "benchmarks", "cli", "configs", "docs", "examples", "ir", "kernels", "models"),
    *("planner", "runtime", "shared", "site_scons", "src", "store", "tests", "web", ".ci", ".git"),
)


_MADE = {*SUFFIXES.values(), ".json"}


def prepare_output(root: Path, out: str, leave_alone: bool) -> None:
    """Find out before anything is built whether results can be written: UsageError where sources
    lie, which a build must not write among nor `-c` remove, WriteError where it cannot be."""
    folder = root / out
    place, home = folder.resolve(), root.resolve()
    top = place.relative_to(home).parts[:1] if place.is_relative_to(home) else ()
    if home.is_relative_to(place) or top in [(name,) for name in SOURCES]:
        raise UsageError(f"out={out} is where sources lie; name a folder of its own")
    if leave_alone:
        return
    probe = folder / f".writable.{os.getpid()}"
    write_atomic(probe, b"")
    probe.unlink()
    sweep(folder)


def declare(
    env: Any,
    root: Path,
    choice: Choice,
    config: Config,
    tolerant: bool = False,
    page: Plan | None = None,
) -> tuple[Any, int]:
    """The bundle's node, and how many files there are to make. page: nodes that are declared too,
    for `scons web`. tolerant: a kernel whose files are wrong is a node that fails. UsageError where
    a folder is in the place of one of the files."""
    chosen = plan(choice, config)
    nodes = chosen if page is None else joined(chosen, page)
    for name in _outputs(nodes):
        if (root / name).is_dir():
            raise UsageError(f"{name} is a folder where the build makes a file; remove it")
    sources, failing = faults.sources(env, root, nodes, tolerant)
    for trace in nodes.traces:
        made = _trace(env, trace, sources[trace.row.module])
        env.Depends(made, failing.get(trace.row.kernel, []))
    for step in nodes.compiles:
        _compile(env, step, config, choice)
    for loop in nodes.replays:
        _replay(env, loop)
    made = _bundle(env, chosen)
    env.Depends(made, faults.unconfigured(env, choice))
    if env.GetOption("clean"):
        env.Clean(made, leftovers(root, choice, config, set(_outputs(nodes))))
        if choice.everything:
            env.Clean(made, web.outputs(root, choice))
    return made, nodes.size


def leftovers(root: Path, choice: Choice, config: Config, outputs: set[str]) -> list[str]:
    """What earlier builds made that this one would not, to be cleaned with it: of kernels that are
    configured no more, and, where the choice is of everything, of other targets and variants."""
    known = {*config.kernels, *config.faults} - {*choice.faults}
    targets = {"kir", *(target.folder for target in choice.targets)}
    found, folder = [], root / choice.out
    for path in sorted(folder.glob("*/*")):
        target, name = path.parent.name, path.name
        ours = target == "kir" or target.partition("-")[0] in BACKENDS
        gone = target in targets and path.is_dir() and name not in known
        if ours and (choice.everything or gone):
            files = path.rglob("*") if path.is_dir() else [path]
            made = [f.relative_to(folder).as_posix() for f in files if f.suffix in _MADE]
            found += [f"{choice.out}/{name}" for name in made]
    return [name for name in found if name not in outputs]


def _outputs(nodes: Plan) -> list[str]:
    """The files that the build makes."""
    names = [name for step in nodes.traces for name in (step.ir, step.locs)]
    for step in (*nodes.compiles, *nodes.replays):
        names += (step.artifact, step.manifest)
    return [*names, nodes.bundle]


def _value(env: Any, request: Any) -> Any:
    return env.Value(json.dumps(request, sort_keys=True, separators=(",", ":")))


def _trace(env: Any, step: Trace, sources: tuple[str, ...]) -> Any:
    request = {
        "module": step.row.module,
        "kernel": step.row.kernel,
        "specialization": step.specialization,
        "constexprs": step.constexprs,
        "compiler": env["WORKSHOP"].compiler("trace"),
        "tools": host(),
    }
    # No part of the request: a line that moves changes nothing that is traced.
    env["WORKSHOP"].places[step.ir] = step.constexprs.places
    return env.Trace([step.ir, step.locs], [*sources, _value(env, request)])


def _compile(env: Any, step: Compile, config: Config, choice: Choice) -> None:
    request = {
        "target": step.target.name,
        "options": step.options,
        "compiler": env["WORKSHOP"].compiler(stage(step.target.name, step.options)),
        "tools": step.tools,
    }
    source = MADE_FROM.get(step.target.backend)
    if source is not None:
        from gristmill.backends.cubin.assembler import identity

        request["assembler"] = identity()
        request["source"] = {
            "target": f"{source}-{step.target.arch}",
            "compiler": env["WORKSHOP"].compiler(source),
            "tools": tools(config, choice, source),
        }
    env.Compile([step.artifact, step.manifest], [step.trace.ir, _value(env, request)])


def _replay(env: Any, step: Replay) -> None:
    request = {
        "target": step.target.name,
        "options": step.options,
        "compiler": env["WORKSHOP"].compiler(step.target.backend),
        "tools": step.tools,
    }
    env.Replay([step.artifact, step.manifest], [_value(env, request)])


def _bundle(env: Any, nodes: Plan) -> Any:
    rows = [listed(step) for step in (*nodes.compiles, *nodes.replays)]
    return env.Bundle(nodes.bundle, [*files(rows), _value(env, rows)])
