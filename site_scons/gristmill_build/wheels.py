"""`scons wheels`: the packs of a build as Python wheels, in OUT/wheels.

Signatures that lie beside the packs go along: `scons pack && gristmill pack sign ... && scons
wheels`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gristmill import __version__
from gristmill.store.distribution.errors import DistributionError
from gristmill.store.distribution.facts import beside, facts
from gristmill.store.distribution.wheels import Wheel, planned, wheel_of, write_wheel
from gristmill.store.pack.errors import PackError

from .options import Choice, UsageError
from .steps import guarded
from .workshop import StepError

JOB = "wheels"
FOLDER = "wheels"


def asked(wanted: list[Any], choice: Choice) -> bool:
    """Whether the command line names the job, or a wheel."""
    folder = f"{choice.out}/{FOLDER}"
    return any(name == JOB or name.startswith(folder) for name in map(str, wanted))


def declare(
    env: Any, root: Path, choice: Choice, wanted: list[Any], bundle: Any, packs: list[Any]
) -> int:
    """The alias `wheels`, where it is asked for; gives the number of files that it makes.

    packs: the nodes of the packs. UsageError where a target has no place in a wheel.
    """
    folder = f"{choice.out}/{FOLDER}"
    if env.GetOption("clean") and choice.everything:
        env.Clean(bundle, sorted(f"{folder}/{p.name}" for p in (root / folder).glob("*.whl")))
    if not asked(wanted, choice):
        return 0
    targets = {f"gristmill-{target.folder}.pack": target.name for target in choice.targets}
    groups: dict[tuple[str, str], list[Any]] = {}
    try:
        for node in packs:
            if node.name in targets:
                groups.setdefault(wheel_of(targets[node.name]), []).append(node)
    except DistributionError as error:
        raise UsageError(str(error)) from error
    licence = ["LICENSE"] if (root / "LICENSE").is_file() else []
    made = []
    for (backend, tag), nodes in sorted(groups.items()):
        request = {
            "version": __version__,
            "packs": [node.get_abspath() for node in nodes],
            "licence": [str(root / name) for name in licence],
            "signatures": [_digests(Path(node.get_abspath())) for node in nodes],
        }
        value = env.Value(json.dumps(request, sort_keys=True, separators=(",", ":")))
        name = Wheel(backend, tag, ()).name(__version__)
        made += env.Wheel(f"{folder}/{name}", [*nodes, *licence, value])
    env.Alias(JOB, made)
    return len(made)


def _digests(pack: Path) -> list[str]:
    """Of what lies beside a pack, so that a wheel is made again once a pack is signed."""
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in beside(pack)]


@guarded("wheel")
def wheel(target: Any, source: Any, env: Any) -> None:
    """Packs with what lies beside them -> a wheel."""
    env["WORKSHOP"].made()
    request = json.loads(source[-1].get_contents())
    licence = Path(request["licence"][0]) if request["licence"] else None
    try:
        (found,) = planned(facts(Path(path)) for path in request["packs"])
        write_wheel(found, Path(target[0].get_abspath()).parent, request["version"], licence)
    except (DistributionError, PackError) as error:
        raise StepError(str(error)) from error
