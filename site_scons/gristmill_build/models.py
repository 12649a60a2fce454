"""`scons model=NAME,...`: plans of models for the chosen targets, beside the kernels they launch.

OUT/plans/NAME/TARGET.plan.json and TARGET.model.json, one Plan each: from
configs/models/NAME.yaml, the header of the model's checkpoint, and the bundle.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from gristmill.store.digest import PACKAGE

from .document import nearest
from .options import Choice, UsageError
from .steps import guarded, write_all
from .workshop import StepError

FOLDER = "configs/models"
# What makes a plan, in the package.
_SOURCES = (
    "ir/*.py", "ir/graph/**/*.py", "ir/ops/**/*.py", "ir/plan/*.py", "ir/quantized/*.py",
    "kernels/movement.py", "kernels/rotary.py", "models/**/*.py", "planner/**/*.py",
    "runtime/engine/kernels.py", "runtime/selection.py",
)  # fmt: skip


def configured(root: Path) -> list[str]:
    """The names of the models that there are."""
    return sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))


def check(root: Path, choice: Choice) -> None:
    """UsageError for a model that is not configured."""
    known = configured(root)
    for name in choice.models:
        if name not in known:
            raise UsageError(
                f"model={name}: there is no {FOLDER}/{name}.yaml{nearest(name, known)}"
            )


def declare(env: Any, root: Path, choice: Choice, bundle: Any) -> list[Any]:
    """A plan for each model and target."""
    check(root, choice)
    made: list[Any] = []
    for name in choice.models:
        for target in choice.targets:
            if target.backend == "interp":
                continue
            request = {
                "model": name,
                "target": target.name,
                "planner": _planner(),
                "checkpoint": _checkpoint(root, name),
            }
            value = env.Value(json.dumps(request, sort_keys=True, separators=(",", ":")))
            stem = f"{choice.out}/plans/{name}/{target.folder}"
            paths = [f"{stem}.plan.json", f"{stem}.model.json"]
            made += env.Plan(paths, [bundle, f"{FOLDER}/{name}.yaml", value])
    return made


@functools.cache
def _planner() -> str:
    """The digest of the sources that make plans."""
    found = sorted({path for pattern in _SOURCES for path in PACKAGE.glob(pattern)})
    digest = hashlib.sha256()
    for path in found:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def _checkpoint(root: Path, name: str) -> str:
    """What a plan depends on of a checkpoint; why it cannot be read is the step's to tell."""
    from gristmill.models import config, programs

    try:
        made = config.load(root / FOLDER / f"{name}.yaml")
        return programs.shape_digest(programs.opened(made, root))
    except (ValueError, OSError, LookupError) as error:
        return f"not readable: {error}"


@guarded("plan")
def plan(target: Any, source: Any, env: Any) -> None:
    """The bundle, a model's configuration, and a request -> the model's plan for a target."""
    from gristmill import runtime
    from gristmill.ir.plan.text import to_json
    from gristmill.models import config, plans
    from gristmill.planner.targets import capabilities_of
    from gristmill.runtime.engine import BundleKernels

    env["WORKSHOP"].made()
    request = json.loads(source[-1].get_contents())
    root = Path(env.Dir("#").abspath)
    capabilities = capabilities_of(request["target"])
    kernels = BundleKernels(runtime.open_bundle(Path(source[0].get_abspath()).parent), capabilities)
    model = config.load(Path(source[1].get_abspath()))
    made = plans.planned(model, capabilities, kernels, root)
    if isinstance(made, tuple):
        lines = "; ".join(map(str, made[:5]))
        more = f"; and {len(made) - 5} more" if len(made) > 5 else ""
        raise StepError(f"{request['model']} is refused for {request['target']}: {lines}{more}")
    said = plans.Description.of(model).to_json()
    write_all(target, (to_json(made).encode(), said.encode()))
