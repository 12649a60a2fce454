"""`scons pack`: one pack for each target, with the record of what it was made from.

OUT/packs/gristmill-TARGET.pack
OUT/packs/gristmill-TARGET.pack.provenance.json
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import zlib
from pathlib import Path
from typing import Any

from gristmill import __version__
from gristmill.backends.stages import stage
from gristmill.store.files import write_atomic
from gristmill.store.pack.errors import PackError
from gristmill.store.pack.writing import Item, write_pack
from gristmill.store.trust import provenance
from gristmill.store.trust.signing import is_of, signature_file

from . import faults, refusals, wheels
from .config import Config
from .options import Choice
from .plan import Made, files, listed, plan
from .steps import entry, guarded
from .workshop import StepError

JOB = "pack"
FOLDER = "packs"


def asked(wanted: list[Any], choice: Choice) -> bool:
    """Whether the command line names the job, or a pack, or what is made of packs."""
    folder = f"{choice.out}/{FOLDER}"
    named = any(name == JOB or name.startswith(folder) for name in map(str, wanted))
    return named or wheels.asked(wanted, choice)


def declare(
    env: Any, root: Path, choice: Choice, config: Config, wanted: list[Any], bundle: Any
) -> int:
    """The aliases `pack` and `wheels`, where they are asked for; gives the number of files that
    they make."""
    if env.GetOption("clean") and choice.everything:
        env.Clean(bundle, _outputs(root, choice))
    if not asked(wanted, choice):
        return wheels.declare(env, root, choice, wanted, bundle, [])
    nodes = plan(choice, config)
    source = source_of(root, choice.out)
    made = []
    for target in choice.targets:
        steps = [s for s in (*nodes.compiles, *nodes.replays) if s.target.name == target.name]
        if not steps:
            continue
        rows = [listed(step) for step in steps]
        request = {"rows": rows, **_request(env, choice, steps, source)}
        value = env.Value(json.dumps(request, sort_keys=True, separators=(",", ":")))
        pack = f"{choice.out}/{FOLDER}/gristmill-{target.folder}.pack"
        node = env.Pack([pack, f"{pack}{provenance.SUFFIX}"], [*files(rows), value])
        env.Clean(node, f"{pack}.sig")
        env.Depends(node, faults.unconfigured(env, choice))
        made += node
    env.Alias(JOB, made)
    return len(made) + wheels.declare(env, root, choice, wanted, bundle, made)


def source_of(root: Path, out: str) -> dict[str, Any]:
    """The commit of a checkout, and whether files of it differ from that; what is not known is not
    there."""
    where = ["git", "-C", str(root)]
    try:
        commit = _said([*where, "rev-parse", "HEAD"])
        status = [*where, "status", "--porcelain", "--", ".", f":(exclude){out}"]
        return {"commit": commit, "dirty": bool(_said(status))}
    except (OSError, subprocess.SubprocessError):  # no git, or no checkout
        return {}


def _said(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def _outputs(root: Path, choice: Choice) -> list[str]:
    """The packs that exist, with their records and signatures."""
    found = sorted((root / choice.out / FOLDER).glob("gristmill-*.pack*"))
    return [f"{choice.out}/{FOLDER}/{path.name}" for path in found if path.is_file()]


def _request(env: Any, choice: Choice, steps: list[Made], source: dict[str, Any]) -> dict[str, Any]:
    """What a target's record says, as JSON."""
    target = steps[0].target.name
    stages = {"trace": env["WORKSHOP"].compiler("trace")}
    for step in steps:
        name = stage(target, step.options)  # type: ignore[attr-defined]
        stages[name] = env["WORKSHOP"].compiler(name)
    return {
        "codec": choice.codec,
        "parameters": {
            "target": target,
            "kernels": sorted(row.kernel for row in choice.kernels),
            "checks": choice.checks,
            "toolchain": choice.llvm,
            "spirv_codegen": choice.spirv_codegen,
            "codec": choice.codec,
            **({"tune": True} if choice.tune else {}),
        },
        "source": source,
        "stages": stages,
        "tools": sorted({tool for step in steps for tool in step.tools}),
        "builder": os.environ.get(provenance.BUILDER) or provenance.LOCAL,
        "versions": {
            "gristmill": __version__,
            "python": platform.python_version(),
            "zlib": zlib.ZLIB_RUNTIME_VERSION,
        },
    }


def origin(request: dict[str, Any]) -> provenance.Origin:
    """The part of a record that does not depend on the pack's bytes."""
    materials: list[Any] = []
    if source := request["source"]:
        commit = {"gitCommit": source["commit"]}
        materials.append(("source", commit, {"dirty": source["dirty"]}))
    materials += [
        (f"compiler, {name}", {"sha256": digest}, {})
        for name, digest in sorted(request["stages"].items())
    ]
    return provenance.Origin(
        provenance.BUILD,
        request["parameters"],
        materials,
        request["builder"],
        request["versions"],
        request["tools"],
    )


@guarded("pack")
def pack(target: Any, source: Any, env: Any) -> None:
    """A target's artifacts with their manifests, and the list of them -> pack and record."""
    env["WORKSHOP"].made()
    request = json.loads(source[-1].get_contents())
    path, record = (Path(node.get_abspath()) for node in target)
    rows, refused = refusals.sort_out(request["rows"], env.GetOption("keep_going"))
    items = [Item(entry(row, path.parent.parent), Path(row[0]).read_bytes()) for row in rows]
    try:
        digest = write_pack(path, items, request["codec"])
    except PackError as error:
        raise StepError(str(error)) from error
    signature = signature_file(path)
    if signature.exists() and not is_of(signature, digest):
        signature.unlink()  # of what the pack was
    write_atomic(record, provenance.statement(path, origin(request)))
    refusals.tell(refused, rows)
