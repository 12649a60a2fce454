"""Whether `scons demo` could run what a command line builds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from .config import Config, TargetRow
from .options import Choice, UsageError

_OPEN = """
import json, sys
from gristmill import runtime
from gristmill.cli import demo
from gristmill.runtime.selection import listed
device, *targets = sys.argv[1:]
try:
    with demo.opened(device) as opened:
        loads = opened.capabilities.targets
        answer = {"device": opened.capabilities.device, "loads": loads, "kernels": demo.KERNELS}
        answer["fitting"] = [t for t in targets if listed(t) in loads]
except runtime.GristmillError as error:
    answer = {"refusal": str(error)}
print(json.dumps(answer))
"""


def check(wanted: Iterable[Any], choice: Choice, config: Config) -> None:
    """Refuse a demo that could not run, before anything is built for it: a device that cannot be
    opened, one that loads nothing of what is built, kernels that are left out."""
    if "demo" not in map(str, wanted) or (choice.everything and not choice.device):
        return
    # A process of its own, as for the demo: drivers and their threads have no business in SCons.
    targets = {**config.targets, **{row.name: row for row in choice.targets}}
    command = [sys.executable, "-c", _OPEN, choice.device, *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = f"device={choice.device}: " if choice.device else "demo: "
    if done.returncode:  # drivers may have written lines of their own before
        raise UsageError(said + (done.stderr.strip() or f"status {done.returncode}"))
    answer = json.loads(done.stdout.splitlines()[-1])
    if "refusal" in answer:
        raise UsageError(said + answer["refusal"])
    if left_out := set(answer["kernels"]) - {row.kernel for row in choice.kernels}:
        raise UsageError(
            f"demo: it runs {', '.join(answer['kernels'])}, and kernel= leaves out "
            f"{', '.join(sorted(left_out))}; name them too, or leave kernel= out"
        )
    if not {row.name for row in choice.targets} & set(answer["fitting"]):
        raise UsageError(
            f"{said}{answer['device']} loads {', '.join(answer['loads'])}, and nothing of that is "
            f"built; {_target_for([targets[name] for name in answer['fitting']])}"
        )


def _target_for(rows: list[TargetRow]) -> str:
    """What to say so that one of the targets is built."""
    if not rows:
        return "no target of configs/targets.yaml is for it"
    usual = [row.backend for row in rows if row.baseline]
    return f"add target={usual[0] if usual else rows[0].name}"
