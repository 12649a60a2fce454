"""The SCons tool: a builder for each kind of step."""

from __future__ import annotations

from typing import Any

import SCons.Builder

from gristmill_build import models, packs, steps, web, wheels


def _label(verb: str) -> Any:
    def describe(target: Any, source: Any, env: Any) -> str:
        return f"{verb} {target[0]}"

    return describe


def generate(env: Any) -> None:
    """Add the builders; the environment must hold WORKSHOP, a `workshop.Workshop`."""
    builders = {
        "Trace": steps.Step(steps.trace, "gristmill trace 1", _label("trace")),
        "Compile": steps.Step(steps.compile_ir, "gristmill compile 1", _label("compile")),
        "Replay": steps.Step(steps.replay, "gristmill replay 1", _label("replay")),
        "Bundle": steps.Step(steps.bundle, "gristmill bundle 1", _label("bundle")),
        "Plan": steps.Step(models.plan, "gristmill plan 1", _label("plan")),
        "Pack": steps.Step(packs.pack, "gristmill pack of a target 1", _label("pack")),
        "Wheel": steps.Step(wheels.wheel, "gristmill wheel 1", _label("wheel")),
        "WebPack": steps.Step(web.pack, "gristmill pack 1", _label("pack")),
        "WebFile": steps.Step(web.copy, "gristmill copy 1", _label("copy")),
    }
    for name, action in builders.items():
        env["BUILDERS"][name] = SCons.Builder.Builder(action=action, source_factory=env.fs.Entry)


def exists(env: Any) -> bool:
    return True
