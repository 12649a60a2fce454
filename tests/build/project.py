"""A small project of its own for tests of the build: toy kernels, two targets, a private store.

Its kernels do not use the kernel language: an object with `constexprs` and `trace` is all that the
build asks of one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

TOY = '''\
"""A toy kernel."""

from .shared import FACTOR, kernel_text
from gristmill.ir.text import parse_kernel


class Toy:
    constexprs = {"BLOCK": (int, 64), "FAIL": (str, "")}

    def __init__(self, name):
        self.name = name

    def trace(self, specialization, BLOCK=64, FAIL=""):
        if FAIL:
            raise ValueError(f"cannot trace: {FAIL}")
        return parse_kernel(kernel_text(self.name, specialization, BLOCK, FACTOR))


scale = Toy("scale")
shift = Toy("shift")
'''

SHARED = '''\
"""What the toy kernels share."""

FACTOR = 3


def kernel_text(name, specialization, block, factor):
    return f"""\\
kernel {name} {specialization}
param x: f32 buffer readwrite
workgroup {block} 1 1
index i32
body(%x.0: buffer<f32,readwrite>) {{
  %i.1 = global_id {{dim=0}} : i32
  %2 = const {factor}.0 : f32
  store %x.0, %i.1, %2
  return
}}
"""
'''

FILES = {
    "kernels/toy.py": TOY,
    "kernels/shared.py": SHARED,
    "configs/targets.yaml": "targets:\n  interp-kir: {default: true}\n  interp-second: {}\n",
    "configs/toolchain.yaml": "backends:\n  interp: []\n",
    "configs/kernels/scale.yaml": (
        "kernel: scale\nmodule: toy\nspecializations:\n  small: {BLOCK: 32}\n  big: {BLOCK: 256}\n"
    ),
    "configs/kernels/shift.yaml": "kernel: shift\nmodule: toy\nspecializations:\n  plain: {}\n",
}


@dataclass
class Run:
    """A finished scons."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def text(self) -> str:
        return self.out + self.err

    def steps(self, verb: str) -> int:
        """How many steps of a kind were carried out (built or fetched)."""
        return len(re.findall(rf"^{verb} ", self.out, re.M))

    @property
    def built(self) -> int:
        return self._tally(r"gristmill: (\d+) steps built")

    @property
    def stored(self) -> int:
        return self._tally(r"(\d+) from the store")

    def _tally(self, pattern: str) -> int:
        found = re.search(pattern, self.out)
        return int(found[1]) if found else 0

    @property
    def failures(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("scons: ***")]


def copy_compiler(folder: Path) -> Path:
    """A copy of what the build uses of the package, below `folder`; gives the package."""
    package = folder / "gristmill"
    for name in ("ir", "store", "backends"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, package / name, ignore=ignore)
    shutil.copy(ROOT / "src/gristmill/__init__.py", package)
    return package


class Project:
    """The project's folder. It shares SConstruct and site_scons with the real one by links.

    compiler: the package to build with, a copy, so that nothing changes it between two builds.
    """

    python = sys.executable  # what runs scons

    def __init__(self, folder: Path, compiler: Path) -> None:
        self.compiler = compiler
        self.root = folder / "project"
        self.store = folder / "store"
        for name, text in FILES.items():
            self.write(name, text)
        for name in ("SConstruct", "site_scons"):
            (self.root / name).symlink_to(ROOT / name)

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.path(name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def scons(self, *arguments: str, jobs: int | None = 2, **environment: str) -> Run:
        """Run scons here to its end."""
        process = self.start(*arguments, jobs=jobs, **environment)
        begin = time.monotonic()
        out, err = process.communicate(timeout=120)
        return Run(process.returncode, out, err, time.monotonic() - begin)

    def start(
        self, *arguments: str, jobs: int | None = 2, **environment: str
    ) -> subprocess.Popen[str]:
        """Start scons here. jobs: what -j says; None leaves it out."""
        number = [] if jobs is None else [f"-j{jobs}"]
        settings = {"GRISTMILL_STORE": str(self.store), "PYTHONPATH": str(self.compiler.parent)}
        return subprocess.Popen(
            [self.python, "-m", "SCons", *number, *arguments],
            cwd=self.root,
            env={**os.environ, **settings, **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )

    def bundle(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.path("artifacts/bundle.json").read_text())
        return data

    def artifacts(self) -> dict[str, bytes]:
        """Every result by path, SCons's own notes left out."""
        folder = self.path("artifacts")
        return {
            p.relative_to(folder).as_posix(): p.read_bytes()
            for p in sorted(folder.rglob("*"))
            if p.is_file() and not p.name.startswith(".")
        }
