"""Plans of models as files beside the kernels that they launch, and what a session needs of them.

FOLDER/plans/NAME/TARGET.plan.json     the plan
FOLDER/plans/NAME/TARGET.model.json    family, checkpoint, context
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..ir.plan import Plan
from ..ir.plan.text import PlanError, from_json
from ..ir.targets import Capabilities
from ..planner import Kernels, Refusal, plan
from .config import Checkpoint as Place
from .config import ModelConfig
from .errors import ModelError
from .programs import opened, program

FOLDER = "plans"
SUFFIX = ".plan.json"
BESIDE = ".model.json"


@dataclass(frozen=True, slots=True)
class Description:
    """What a plan does not say of its model. context: tokens of a sequence; 0 of an encoder."""

    name: str
    family: str
    checkpoint: Place
    context: int

    @staticmethod
    def of(config: ModelConfig) -> Description:
        context = max(config.context, default=0)
        return Description(config.name, config.family, config.checkpoint, context)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: bytes, where: str) -> Description:
        """Raises PlanError."""
        try:
            data: dict[str, Any] = json.loads(text)
            place = Place(**data.pop("checkpoint"))
            return Description(checkpoint=place, **data)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PlanError(f"{where}: no description of a model: {error}") from error


def planned(
    config: ModelConfig, capabilities: Capabilities, kernels: Kernels, root: Path = Path()
) -> Plan | tuple[Refusal, ...]:
    """The plan of a configured model for a device, or what is missing. Raises ModelError and
    CheckpointError."""
    return plan(config.name, program(config, opened(config, root)), capabilities, kernels)


def files(bundle: Path, name: str) -> dict[str, Path]:
    """The plans of a model beside a bundle, by target."""
    found = sorted((bundle / FOLDER / name).glob(f"*{SUFFIX}"))
    return {path.name.removesuffix(SUFFIX): path for path in found}


def names(bundle: Path) -> list[str]:
    """The models that have plans beside a bundle."""
    return sorted(path.name for path in (bundle / FOLDER).glob("*") if path.is_dir())


def no_plans(bundle: Path, name: str) -> ModelError:
    """What is to be said of a bundle without any plan."""
    return ModelError(
        f"bundle {bundle}",
        f"a folder that scons model={name} made",
        "one without plans of models (packs and wheels hold kernels alone)",
        f"run scons model={name}, and name its folder by --bundle",
    )


def find(bundle: Path, name: str, capabilities: Capabilities) -> tuple[Plan, Description]:
    """The plan of a model for a device, of those for its targets the best. Raises ModelError where
    there is none, PlanError where it cannot be read."""
    there = files(bundle, name)
    for target in capabilities.targets:
        path = there.get(target.replace(":", "."))
        if path is None:
            continue
        beside = path.with_name(path.name.removesuffix(SUFFIX) + BESIDE)
        try:
            made = from_json(path.read_bytes(), str(path))
            return made, Description.from_json(beside.read_bytes(), str(beside))
        except OSError as error:
            raise PlanError(f"{path}: cannot be read: {error}") from error
    raise ModelError(
        f"plans of {name} in {bundle / FOLDER}",
        f"one for {capabilities.device}, which loads {', '.join(capabilities.targets)}",
        ", ".join(sorted(there))
        or f"none (planned are: {', '.join(names(bundle)) or 'no models'})",
        f"build it: scons model={name} target={capabilities.targets[0].partition('-')[0]}",
    )
