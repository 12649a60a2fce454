"""A project with one real kernel, three points to tune, and targets of the CPU and the oracle."""

from __future__ import annotations

from pathlib import Path

from gristmill.runtime.devices.cpu.level import targets
from project import ROOT, Project

TARGET = targets()[0]
GEMV = """\
kernel: gemv
specializations:
  f32: {T: f32}
variants:
  cpu: [{BLOCK: 32, SUBGROUP: 32}]
tune:
  sizes: [{y: 64, cols: 96}]
  arguments: {a: [y, cols], x: cols}
  cost: {operations: "2 * y * ceil_div(cols, BLOCK) * BLOCK", bytes: 4 * y * cols}
  spaces:
    cpu:
      constexprs: {BLOCK: [8, 16, 32], SUBGROUP: [8, 16, 32]}
      where: [BLOCK == SUBGROUP]
"""
TUNED = f"""\
device: cpu
name: Some CPU 9000
matches: ["Some CPU*"]
kernels:
  - kernel: gemv
    specialization: f32
    target: {TARGET}
    shapes:
      - sizes: {{y: 1000, cols: 64}}
        winner: {{BLOCK: 8, SUBGROUP: 8}}
      - sizes: {{y: 1000, cols: 4096}}
        winner: {{BLOCK: 32, SUBGROUP: 32}}
"""
FILES = {
    "configs/targets.yaml": f"targets:\n  {TARGET}: {{default: true}}\n  interp-kir: {{}}\n",
    "configs/toolchain.yaml": (ROOT / "configs/toolchain.yaml").read_text(),
    "configs/kernels/gemv.yaml": GEMV,
    "configs/tuning/some.yaml": TUNED,
}


def made(folder: Path, compiler: Path) -> Project:
    """The project in a folder, with the real kernels."""
    project = Project(folder, compiler)
    for name in ("scale", "shift"):
        project.path(f"configs/kernels/{name}.yaml").unlink()
    for path in project.path("kernels").iterdir():
        path.unlink()
    project.path("kernels").rmdir()
    project.path("kernels").symlink_to(ROOT / "kernels")
    for name, text in FILES.items():
        project.write(name, text)
    return project
