"""Processes that use wgpu on software drivers, and a bundle of the runtime's samples for them.

A process each, as the loader of Vulkan reads its environment once, and as wgpu-native ends the
process where something is wrong with what it is called with.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from modules import load_module
from need import driver_file

TESTS = Path(__file__).parent
DRIVERS = ("lavapipe", "swiftshader")
TARGETS = ("interp-kir", "spirv-vulkan1.1", "wgsl-webgpu", "wgsl-webgpu:component_stores")
HEAD = """
import sys
import numpy as np
from gristmill import runtime
bundle = runtime.open_bundle(sys.argv[1])

def expect(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")
"""
OPEN = HEAD + "device = runtime.open_device('wgpu')\n"


def samples(folder: Path) -> Path:
    """Compile the samples of `tests/runtime` into a folder."""
    suite = load_module(TESTS / "runtime/conftest.py", "suite_conftest")
    made: Path = suite.compile_bundle(folder, TARGETS)
    return made


def environment(*drivers: str) -> dict[str, str]:
    """Of a process that sees these drivers and no others."""
    files = os.pathsep.join(str(driver_file(name)) for name in drivers)
    # Mesa's layer that orders devices looks for a display, and complains where there is none.
    return dict(os.environ, VK_DRIVER_FILES=files, NODEVICE_SELECT="1")


class Runner:
    """`run(program, "lavapipe", ...)`: what a program with these drivers prints. It comes after
    `head`, gets the bundle's path as its first argument and must end well."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle

    def __call__(
        self, program: str, *drivers: str, args: tuple[str, ...] = (), head: str = OPEN
    ) -> str:
        text = head + textwrap.dedent(program)
        done = subprocess.run(
            [sys.executable, "-c", text, str(self.bundle), *args],
            env=environment(*drivers),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stderr == ""
        return done.stdout
