"""The kernels that devices over test doubles run, and what a bundle holds of them but the code."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

from gristmill.backends.compile import Options, compile_kernel
from gristmill.ir.core import Kernel
from gristmill.ir.text import line_locs, print_kernel
from gristmill.store.bundle import Place
from gristmill.store.manifest import Manifest

SAMPLES = {
    "saxpy": {"T": "f32"},
    "add_slot": {},
    "checked_root": {},
    "group_ids": {},
    "scalars": {},
}
Manifests = dict[str, tuple[Manifest, tuple[Place, ...]]]


@functools.cache
def traced() -> dict[str, Kernel]:
    """The kernel IR of each sample."""
    file = Path(__file__).parent / "runtime/sample_kernels.py"
    spec = importlib.util.spec_from_file_location("double_sample_kernels", file)
    assert spec is not None
    assert spec.loader is not None
    samples = importlib.util.module_from_spec(spec)
    sys.modules["double_sample_kernels"] = samples
    spec.loader.exec_module(samples)
    return {name: getattr(samples, name).trace("s", **c) for name, c in SAMPLES.items()}


@functools.cache
def manifests() -> Manifests:
    """Manifest and places of the fault sites of each sample, made for the interpreter."""
    found = {}
    for name, kernel in traced().items():
        text = print_kernel(kernel)
        _, manifest = compile_kernel(text, "interp-kir", Options())
        lines = text.splitlines()
        sites = tuple(
            Place(loc.file, loc.line, loc.column)
            for number, loc in sorted(line_locs(kernel).items())
            if lines[number - 1].strip().startswith("assert")
        )
        found[name] = manifest, sites[: len(manifest.sites)]
    return found
