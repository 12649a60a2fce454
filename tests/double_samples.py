"""The kernels that devices over test doubles run, and what a bundle holds of them but the code."""

from __future__ import annotations

import functools
from pathlib import Path

from gristmill.backends.compile import Options, compile_kernel
from gristmill.ir.core import Kernel
from gristmill.ir.text import line_locs, print_kernel
from gristmill.store.bundle import Place
from gristmill.store.manifest import Manifest
from modules import load_module

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
    samples = load_module(file, "double_sample_kernels")
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
