"""`gristmill reproduce`: build a pack's artifacts again from source, and say which differ.

The build is the one that made the pack, `scons`, for the pack's targets and kernels, with an empty
store: nothing comes from a cache. Artifacts are compared as they are used, not as they are
compressed: bytes, manifests and places of fault sites. That the key alone differs (another compiler
gave the same artifact) is told, and no difference.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..store.bundle import Entry, read_bundle
from ..store.pack.reading import Pack
from ..store.trust.provenance import read_record
from .errors import CHECK_FAILED, CommandError

_OWN = "gristmill."  # what a build makes for itself, such as the loop that replays
_SHOWN = 60  # characters of a value


class Artifact(NamedTuple):
    """An entry, and the bytes of its artifact."""

    entry: Entry
    blob: bytes


def reproduce(arguments: Namespace) -> int:
    """The command. CommandError, PackError, TrustError."""
    source = Path(arguments.source) if arguments.source else Path(__file__).resolve().parents[1]
    if not (source / "SConstruct").exists():
        raise CommandError(
            f"{source} is no checkout (it has no SConstruct); name one with --source"
        )
    with Pack.open(arguments.pack) as pack:
        packed = {e.path: Artifact(e, pack.read(n)) for n, e in enumerate(pack)}
    if not packed:
        raise CommandError(f"{arguments.pack} is empty: there is nothing to compare")
    record = read_record(arguments.pack)
    with tempfile.TemporaryDirectory(prefix="gristmill-") as name:
        words = build_words(packed, parameters(record))
        rebuilt = build(source.resolve(), Path(name), words, arguments.jobs)
    found = compare(packed, rebuilt)
    notes = [*source_notes(record, source), *found.notes]
    same = len(packed) - len(found.differences)
    if arguments.json:
        told = {
            "pack": arguments.pack,
            "command": ["scons", *words],
            "entries": len(packed),
            "same": same,
            "differences": found.differences,
            "notes": notes,
        }
        print(json.dumps(told, indent=2))
    else:
        for path, reasons in found.differences.items():
            print(f"differs: {path}: {'; '.join(reasons)}")
        for note in notes:
            print(f"note: {note}")
        print(f"{arguments.pack}: {same} of {len(packed)} artifacts are the same when rebuilt")
    return CHECK_FAILED if found.differences else 0


def parameters(record: dict[str, Any] | None) -> dict[str, Any]:
    """How the pack was built, as its record says; nothing where there is none."""
    if record is None:
        return {}
    return dict(record["predicate"]["buildDefinition"]["externalParameters"])


def build_words(packed: Mapping[str, Artifact], asked: Mapping[str, Any]) -> list[str]:
    """What to ask of scons for the artifacts of a pack."""
    manifests = [artifact.entry.manifest for artifact in packed.values()]
    targets = sorted({m.target for m in manifests})
    kernels = sorted({m.kernel for m in manifests if not m.kernel.startswith(_OWN)})
    which = "tune" if asked.get("tune") is True else "kernel"
    words = [f"target={','.join(targets)}", f"{which}={','.join(kernels)}"]
    words.append(f"checks={'on' if any(m.checks for m in manifests) else 'off'}")
    for name in ("toolchain", "spirv_codegen"):
        if isinstance(value := asked.get(name), str) and value.isalnum():
            words.append(f"{name}={value}")
    return words


def build(source: Path, folder: Path, words: list[str], jobs: int | None) -> dict[str, Artifact]:
    """Build in a folder of its own, with a store of its own; the artifacts by path.
    CommandError with what scons says where there are none."""
    out = folder / "out"
    environment = build_environment(source, folder, os.environ)
    command = [sys.executable, "-m", "SCons", "-Q", "-k", *words, f"out={out}"]
    command += [f"-j{jobs}"] if jobs else []
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    index = out / "bundle.json"
    if not index.exists():
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["nothing"]
        raise CommandError(
            f"{source} cannot be built (scons {' '.join(words)} ends with status "
            f"{done.returncode}): {said[-1]}"
        )
    return {e.path: Artifact(e, (out / e.path).read_bytes()) for e in read_bundle(index)}


class Comparison(NamedTuple):
    """differences: what differs, in words, by path. notes: what is no difference but worth
    knowing."""

    differences: dict[str, list[str]]
    notes: list[str]


def compare(packed: Mapping[str, Artifact], rebuilt: Mapping[str, Artifact]) -> Comparison:
    """The artifacts of a pack against those of a build."""
    differences: dict[str, list[str]] = {}
    other_keys = 0
    for path, artifact in packed.items():
        if path not in rebuilt:
            differences[path] = ["the build makes no such artifact"]
            continue
        if reasons := _reasons(artifact, rebuilt[path]):
            differences[path] = reasons
        elif artifact.entry.manifest.key != rebuilt[path].entry.manifest.key:
            other_keys += 1
    notes = []
    if other_keys:
        notes.append(
            f"{other_keys} artifacts have another key, and the same bytes: compiler or tools were "
            "not those of this checkout"
        )
    if more := sorted(rebuilt.keys() - packed.keys()):
        notes.append(f"the build makes {len(more)} more, among them {more[0]}")
    return Comparison(differences, notes)


def _reasons(old: Artifact, new: Artifact) -> list[str]:
    reasons = []
    if old.blob != new.blob:
        at = next(
            (n for n, (a, b) in enumerate(zip(old.blob, new.blob, strict=False)) if a != b),
            min(len(old.blob), len(new.blob)),
        )
        sizes = f"{len(old.blob)} bytes, rebuilt {len(new.blob)}"
        reasons.append(f"other bytes from byte {at} on ({sizes})")
    ours, theirs = (dataclasses.asdict(a.entry.manifest) for a in (old, new))
    for name in ours:
        if name not in ("key", "sha256", "size") and ours[name] != theirs[name]:
            reasons.append(f"{name} {_shown(ours[name])}, rebuilt {_shown(theirs[name])}")
    if old.entry.sites != new.entry.sites:
        reasons.append("other places of the fault sites")
    return reasons


def build_environment(source: Path, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """What a build sees that takes nothing from any store and imports the checkout's compiler."""
    found = {name: v for name, v in environment.items() if not name.startswith("GRISTMILL_CACHE")}
    found["GRISTMILL_STORE"] = str(folder / "store")
    if (source / "src/gristmill").is_dir():
        known = environment.get("PYTHONPATH")
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(source / "src"), known]))
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def source_notes(record: dict[str, Any] | None, source: Path) -> list[str]:
    """Where the record speaks of another source than the checkout."""
    if record is None:
        return ["no provenance record beside the pack: built with the usual options"]
    materials = record["predicate"]["buildDefinition"]["resolvedDependencies"]
    said = next((m for m in materials if m["name"] == "source"), {"digest": {}})
    commit = said["digest"].get("gitCommit", "")
    try:
        command = ["git", "-C", str(source), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        here = done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        here = ""
    notes = []
    if commit != here:
        notes.append(
            f"the record names commit {commit or 'unknown'}, this checkout is at "
            f"{here or 'an unknown one'}"
        )
    if said.get("annotations", {}).get("dirty"):
        notes.append("the record says that the source differed from its commit")
    return notes
