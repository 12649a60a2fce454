"""Build steps answered from the store where they can be, worked out and kept where not.

A step is a key and a function that makes its outputs. The store decides what is valid; whoever
schedules the steps (SCons, a planner) does not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from ..ir.core import Kernel, walk
from ..ir.text import parse_kernel
from ..store.local import LocalStore
from ..store.manifest import Manifest
from .compile import CompileError, Options, backend, compile_kernel

Outputs = dict[str, bytes]


def through_store(
    store: LocalStore, key: str, names: tuple[str, ...], make: Callable[[], Outputs]
) -> tuple[Outputs, bool]:
    """The outputs `names` of step `key`, and whether they came from the store."""
    found = store.get(key)
    if found is not None and set(found) == set(names):
        return found, True
    outputs = make()
    store.put(key, outputs)
    return outputs, False


def compile_step(text: str, target: str, options: Mapping[str, Any], key: str) -> Outputs:
    """Compile and validate: the outputs `artifact` and `manifest` of a compile step.

    Runs in a worker process. Raises what `compile_kernel` raises, and CompileError where a
    validator finds the emitted artifact wrong or its digest is not what the manifest says.
    """
    blob, manifest = compile_kernel(text, target, Options(**options), key)
    validate = getattr(backend(target.partition("-")[0]), "validate", None)
    if validate is not None:
        _validate(validate, blob, manifest, target)
    if manifest.sites:
        lines = site_lines(text, options)
        manifest = dataclasses.replace(manifest, facts={**manifest.facts, "site_lines": lines})
    assert hashlib.sha256(blob).hexdigest() == manifest.sha256
    return {"artifact": blob, "manifest": manifest.to_json().encode()}


def _validate(validate: Callable[..., Any], blob: bytes, manifest: Manifest, target: str) -> None:
    message = validate(blob, target.partition("-")[2])
    if message:
        raise CompileError(manifest.kernel, target, f"the validator refuses it: {message}")


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


def site_places(manifest: Manifest, locs: bytes) -> list[dict[str, Any] | None]:
    """Where in the kernel source each fault site stands, from the line table of the trace."""
    table = json.loads(locs)
    found: list[dict[str, Any] | None] = []
    for line in manifest.facts.get("site_lines", [0] * len(manifest.sites)):
        place = table.get(str(line))
        found.append(dict(zip(("file", "line", "column"), place, strict=True)) if place else None)
    return found
