"""Compiling for PTX as the build does, in a compiler process, and assembling the text."""

from __future__ import annotations

import atexit
import functools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gristmill.backends.compile import Options, compile_kernel
from gristmill.backends.cubin.assembler import ptxas
from gristmill.backends.pool import Pool
from gristmill.backends.ptx.emit import check_label
from gristmill.backends.trace import trace
from gristmill.ir.core import Kernel
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.store.manifest import Manifest
from gristmill_build import config, options, plan, sources

ROOT = Path(__file__).parents[2]
_TRACED: dict[str, Kernel] = {}  # by the path of the trace, for tests of several targets


@functools.cache
def pool() -> Pool:
    """The compiler processes of this test run."""
    made = Pool(1, timeout=120)
    atexit.register(made.close)
    return made


def compiled(kernel: Kernel, arch: str = "sm_80", checks: bool = False) -> tuple[str, Manifest]:
    """The PTX of a kernel, checked against its label."""
    function = f"{compile_kernel.__module__}:compile_kernel"
    options = Options(checks=checks)
    blob, manifest = pool().run(function, print_kernel(kernel), f"ptx-{arch}", options)
    check_label(blob, manifest)
    return blob.decode(), manifest


def ptx(kernel: Kernel, arch: str = "sm_80", checks: bool = False) -> str:
    return compiled(kernel, arch, checks)[0]


def assembled(text: str, arch: str) -> bytes:
    """The cubin that ptxas makes; AssertionError with its words where it makes none."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(text)
        command = [ptxas() or "ptxas", f"-arch={arch}", "-o", out, source]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{done.stderr}\n{text}"
        return out.read_bytes()


def usual() -> set[str]:
    """What a build makes where no architecture is named, and the one with instructions of its
    own."""
    rows = config.load(ROOT).targets.values()
    baseline = {row.name for row in rows if row.baseline}
    return {name[4:] for name in baseline if name.startswith("ptx-")} | {"sm_90a"}


def shipped(target: str) -> Iterator[tuple[str, Kernel]]:
    """The kernels that a build for `target` compiles, by their path within it."""
    settings = config.load(ROOT)
    for step in plan.plan(options.choose({"target": target}, settings), settings).traces:
        if step.stem not in _TRACED:
            row = step.row
            paths = sources.module_sources(ROOT, row.module)
            files = {path: (ROOT / path).read_bytes() for path in paths}
            text, _ = trace(files, row.module, row.kernel, step.specialization, step.constexprs)
            _TRACED[step.stem] = parse_kernel(text.decode())
        yield step.stem.partition("/kir/")[2], _TRACED[step.stem]
