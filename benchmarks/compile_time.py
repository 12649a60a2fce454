"""How long kernel IR takes to SPIR-V or PTX: every kernel of configs/kernels, passes and emission
(PTX: with LLVM) apart.

    python benchmarks/compile_time.py [--runs 20] [--target ptx-sm_80] [--above MS]

Times are CPU milliseconds of a warm process, the best of several runs: so do the build's workers
run, one kernel after another.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gristmill.backends.compile import Options
from gristmill.backends.trace import trace
from gristmill.ir.core import Kernel, walk
from gristmill.ir.text import parse_kernel

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 3.0  # milliseconds: what a kernel should take on a quiet machine


@dataclass(frozen=True)
class Row:
    """One kernel: ops as traced, milliseconds of the passes and of the emitter."""

    kernel: str
    specialization: str
    ops: int
    passes: float
    emission: float

    @property
    def total(self) -> float:
        return self.passes + self.emission


def kernels(target: str) -> Iterator[tuple[str, Kernel]]:
    """The traces that a build for `target` compiles: path within the build, and parsed kernel."""
    sys.path.append(str(ROOT / "site_scons"))
    from gristmill_build import config, options, plan, sources

    settings = config.load(ROOT)
    for step in plan.plan(options.choose({"target": target}, settings), settings).traces:
        row = step.row
        paths = sources.module_sources(ROOT, row.module)
        text, _ = trace(
            {path: (ROOT / path).read_bytes() for path in paths},
            row.module,
            row.kernel,
            step.specialization,
            step.constexprs,
        )
        yield step.stem.partition("/kir/")[2], parse_kernel(text.decode())


def stages(target: str) -> tuple[Callable[[Kernel], Kernel], Callable[[Kernel], object]]:
    """The passes and the emission of a target."""
    backend, _, arch = target.partition("-")
    if backend == "ptx":
        from gristmill.backends.llvm import toolchain
        from gristmill.backends.ptx import emit as ptx
        from gristmill.backends.ptx.effort import thorough

        row = ptx.find_arch("", arch)
        return (
            lambda kernel: ptx.prepare(kernel, Options()),
            lambda kernel: toolchain.emit_assembly(
                ptx.write(kernel, row), row.machine(thorough(kernel))
            ),
        )
    if backend == "hsaco":
        from gristmill.backends.hsaco import emit as hsaco

        def processor(kernel: Kernel) -> hsaco.Arch:
            return hsaco.find_arch(kernel, arch)

        return (
            lambda kernel: hsaco.prepare(kernel, Options(), processor(kernel)),
            lambda kernel: hsaco.assemble(kernel, processor(kernel), Options()),
        )
    from gristmill.backends.spirv import emit as spirv

    base, native = spirv.split_arch("", arch)
    return (
        lambda kernel: spirv.prepare(kernel, Options()),
        lambda kernel: spirv.emit_lowered(kernel, base, native, arch),
    )


def measure(path: str, kernel: Kernel, target: str, runs: int) -> Row:
    """The best times of `runs` compiles."""
    prepare, finish = stages(target)
    passes = emission = float("inf")
    gc.collect()
    gc.disable()  # as `compile_kernel` does
    try:
        for _ in range(runs):
            start = time.process_time()
            lowered = prepare(kernel)
            middle = time.process_time()
            finish(lowered)
            end = time.process_time()
            passes, emission = min(passes, middle - start), min(emission, end - middle)
    finally:
        gc.enable()
    name, _, specialization = path.partition("/")
    ops = sum(1 for _ in walk(kernel.body))
    return Row(name, specialization, ops, passes * 1e3, emission * 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--target", default="spirv-vulkan1.1")
    parser.add_argument("--above", type=float, default=0.0, help="print rows from this time on")
    options = parser.parse_args()
    rows = [measure(p, k, options.target, options.runs) for p, k in kernels(options.target)]
    rows.sort(key=lambda row: -row.total)
    print(f"{'kernel':18} {'specialization':20} {'ops':>5} {'passes':>8} {'emit':>8} {'total':>8}")
    for row in rows:
        if row.total >= options.above:
            print(
                f"{row.kernel:18} {row.specialization:20} {row.ops:5}"
                f" {row.passes:8.2f} {row.emission:8.2f} {row.total:8.2f}"
            )
    median = rows[len(rows) // 2].total
    slow = sum(row.total > LIMIT for row in rows)
    print(f"{len(rows)} kernels, median {median:.2f} ms, {slow} above {LIMIT:.0f} ms")


if __name__ == "__main__":
    main()
