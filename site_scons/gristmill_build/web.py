"""`scons web`: a page that runs the kernels in a browser, and the pack that it loads.

The pack, OUT/web/kernels.pack, holds every WGSL module of the chosen kernels; beside it lie the
files of web/ as they are.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from gristmill.store.files import write_atomic
from gristmill.store.wgsl_pack import wgsl_pack

from . import faults
from .config import Config
from .options import Choice, UsageError
from .plan import Compile, Plan, files, listed, plan
from .steps import entry, guarded, write_all

JOB = "web"
TARGET = "wgsl-webgpu"
PACK = "kernels.pack"


def asked(wanted: list[Any], choice: Choice) -> bool:
    """Whether the command line names the job, or a file of the page."""
    folder = f"{choice.out}/web"
    return any(name == JOB or name.startswith(folder) for name in map(str, wanted))


def page_plan(choice: Choice, config: Config) -> Plan:
    """The nodes that the page needs. UsageError where there can be none."""
    if TARGET not in config.targets:
        raise UsageError(f"{JOB} needs the target {TARGET} in configs/targets.yaml")
    nodes = plan(replace(choice, targets=(config.targets[TARGET],)), config)
    if not nodes.compiles and not choice.faults:
        raise UsageError(f"{JOB}: none of the kernels is built for {TARGET}")
    return nodes


def outputs(root: Path, choice: Choice) -> list[str]:
    """The files of the page that exist."""
    folder = root / choice.out
    files = sorted(path for path in (folder / "web").rglob("*") if path.is_file())
    return [f"{choice.out}/{path.relative_to(folder).as_posix()}" for path in files]


def declare(env: Any, root: Path, choice: Choice, compiles: tuple[Compile, ...]) -> None:
    """The alias `web`: the pack, and a copy of every file of the page."""
    folder = f"{choice.out}/web"
    rows = [listed(step) for step in compiles]
    value = env.Value(json.dumps(rows, sort_keys=True, separators=(",", ":")))
    made = [env.WebPack(f"{folder}/{PACK}", [*files(rows), value])]
    for path in sorted((root / "web").rglob("*")):
        if path.is_file():
            name = path.relative_to(root / "web").as_posix()
            made.append(env.WebFile(f"{folder}/{name}", f"web/{name}"))
    env.Depends(made[0], faults.unconfigured(env, choice))
    env.Alias(JOB, made)


@guarded("pack")
def pack(target: Any, source: Any, env: Any) -> None:
    """WGSL modules with their manifests, and the list of them -> a pack for pages."""
    env["WORKSHOP"].made()
    request = json.loads(source[-1].get_contents())
    path = Path(target[0].get_abspath())
    rows = [(entry(row, path.parent.parent), Path(row[0]).read_bytes()) for row in request]
    write_atomic(path, wgsl_pack(rows))


@guarded("copy")
def copy(target: Any, source: Any, env: Any) -> None:
    """A file of the page -> the same where it is served from."""
    env["WORKSHOP"].made()
    write_all(target, (env["WORKSHOP"].read(source[0]),))
