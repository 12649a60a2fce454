"""The second build step as bytes in, bytes out, and the way back from errors to the source."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..ir.core import Kernel, Loc, walk
from ..ir.text import parse_kernel
from ..store.manifest import Manifest
from .compile import CompileError, Options, backend, compile_kernel

Outputs = dict[str, bytes]


def compile_step(text: str, target: str, options: Mapping[str, Any], key: str) -> Outputs:
    """Compile and validate: the outputs `artifact` and `manifest` of a compile step.

    Runs in a worker process. Raises what `compile_kernel` raises, and what the backend's
    `check_label` or `validate`, where it has one, says of a wrong artifact (CompileError).
    """
    chosen = Options(**options)
    blob, manifest = compile_kernel(text, target, chosen, key)
    name, _, arch = target.partition("-")
    module = backend(name, chosen)
    if hasattr(module, "check_label"):
        module.check_label(blob, manifest)
    elif hasattr(module, "validate"):
        try:
            module.validate(blob, arch)
        except CompileError:  # again with the kernel, which knows the line of the instruction
            module.validate(blob, arch, parse_kernel(text), chosen)
            raise
    if manifest.sites:
        # A backend that runs the text as it is (interp) adds no sites of checks.
        added = len(manifest.sites) > len(parse_kernel(text).sites)
        lines = site_lines(text, {"checks": chosen.checks and added})
        manifest = dataclasses.replace(manifest, facts={**manifest.facts, "site_lines": lines})
    return {"artifact": blob, "manifest": manifest.to_json().encode()}


def relabelled(manifest: bytes, target: str, key: str, artifact: bytes, facts: bytes) -> bytes:
    """The manifest of what was assembled from another artifact, whose manifest is given.

    facts: JSON; they replace those of the first artifact that only concern its text. CompileError
    for an artifact that does not hold what this manifest says.
    """
    first = Manifest.from_json(manifest)
    kept = {name: value for name, value in first.facts.items() if name != "ptx_isa"}
    made = dataclasses.replace(
        first,
        target=target,
        key=key,
        sha256=hashlib.sha256(artifact).hexdigest(),
        size=len(artifact),
        facts={**kept, **json.loads(facts)},
    )
    backend(target.partition("-")[0]).check_label(artifact, made)
    return made.to_json().encode()


def source_error(error: CompileError, locs: bytes) -> CompileError:
    """The same error at its place in the kernel source, by the line table of the trace."""
    place = json.loads(locs).get(str(error.loc.line)) if error.loc else None
    if place is None or error.loc is None or error.loc.file != "<kernel IR>":
        return error
    return type(error)(error.kernel, error.target, error.message, Loc(*place))


def site_lines(text: str, options: Mapping[str, Any]) -> list[int]:
    """The line of the IR text that each fault site comes from; 0 where no line is known."""
    kernel = _with_checks(parse_kernel(text), options)
    lines = [0] * len(kernel.sites)
    for op in walk(kernel.body):
        if op.name == "assert" and op.loc is not None:
            site = op.attr("site")
            if isinstance(site, int) and site < len(lines):
                lines[site] = lines[site] or op.loc.line
    return lines


def _with_checks(kernel: Kernel, options: Mapping[str, Any]) -> Kernel:
    if not options.get("checks"):
        return kernel
    from ..ir.passes import checks

    return checks.Checks()(kernel)
