"""What a test needs beyond Python: a device, a driver or a tool of this machine.

`require("vulkan")` skips the test where the thing is missing; where GRISTMILL_REQUIRE (names
separated by commas, or `all`) lists it, the test fails instead: a skipped check is no check.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

DEVICES = ("cpu", "cuda", "hsa", "vulkan", "wgpu", "null", "interp")


def _device(name: str) -> str | None:
    from gristmill import runtime

    try:
        runtime.open_device(name).close()
    except AttributeError as error:
        return f"the runtime cannot open devices ({error})"
    except runtime.NoDevice as error:
        return str(error)
    return None


def driver_file(name: str) -> Path | None:
    """The Vulkan driver manifest of `lavapipe` or `swiftshader`, for VK_DRIVER_FILES."""
    patterns = {
        "lavapipe": ("/usr/share/vulkan/icd.d/lvp_icd*.json",),
        "swiftshader": ("/usr/lib/chromium/vk_swiftshader_icd.json",),
    }
    found = [path for pattern in patterns[name] for path in sorted(glob.glob(pattern))]
    return Path(found[0]) if found else None


def tool(name: str) -> str | None:
    """The path of a program: beside this Python first, then on PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


def llvm_tool(name: str) -> str | None:
    """The path of a program of LLVM, of the release that the build's LLVM is."""
    from gristmill.backends.llvm.machine import LLVM_VERSION

    return shutil.which(f"{name}-{LLVM_VERSION[0]}")


def _qemu() -> str | None:
    names = ("qemu-aarch64", "qemu-aarch64-static")
    return None if any(map(shutil.which, names)) else f"none of {', '.join(names)} on PATH"


def _assembler(name: str) -> str | None:
    from gristmill.backends.cubin import assembler

    found = assembler.ptxas() if name == "ptxas" else assembler.library()
    return None if found else f"neither nvidia's package nor PATH has {name}"


def _llvm_programs(route: str) -> str | None:
    from gristmill.backends.llvm import external

    try:
        external.programs(route)
    except external.LlvmError as error:
        return str(error)
    return None


def second_python() -> str:
    """A Python of another minor version, with what builds need: GRISTMILL_SECOND_PYTHON."""
    return os.environ.get("GRISTMILL_SECOND_PYTHON", "")


def _second_python() -> str | None:
    if not second_python():
        return "GRISTMILL_SECOND_PYTHON names none; .ci/second-python FOLDER fetches one"
    command = [second_python(), "-c", "import SCons, sys; print(*sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{second_python()} cannot import SCons: {done.stderr.strip()[-300:]}"
    same = done.stdout.split() == [str(part) for part in sys.version_info[:2]]
    return f"{second_python()} is of the same minor version as this one" if same else None


@functools.cache
def missing(name: str) -> str | None:
    """Why `name` cannot be used on this machine; None where it can."""
    if name in DEVICES:
        return _device(name)
    if name in ("lavapipe", "swiftshader"):
        return None if driver_file(name) else f"no Vulkan driver manifest of {name}"
    if name == "qemu":
        return _qemu()
    if name in ("ptxas", "nvjitlink"):
        return _assembler(name)
    if name in ("fatbinary", "cuobjdump"):
        from gristmill.cli.fatbin import nvidia_program

        return None if nvidia_program(name) else f"neither nvidia's packages nor PATH has {name}"
    if name == "ld.lld" or name.startswith("llvm-"):
        return None if llvm_tool(name) else f"no {name} of the build's release of LLVM on PATH"
    if name in ("llc", "clang"):
        return _llvm_programs(name)
    if name == "second-python":
        return _second_python()
    if tool(name) or importlib.util.find_spec(name):
        return None
    return f"neither a program nor a Python module is called {name}"


class Need:
    """The `require` fixture: call it with a name, or with a reason of your own."""

    def __init__(self, required: str, find: Callable[[str], str | None] = missing) -> None:
        self.required = {name.strip() for name in required.split(",") if name.strip()}
        self.find = find

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Need:
        return Need(environment.get("GRISTMILL_REQUIRE", ""))

    def __call__(self, name: str, why: str | None = None) -> None:
        """Go on where `name` is here. `why`: the caller already knows that it is missing. A module
        whose imports need it asks before them, outside of any test."""
        reason = why or self.find(name)
        if reason is None:
            return
        if name in self.required or "all" in self.required:
            pytest.fail(f"{name} is required (GRISTMILL_REQUIRE) and missing: {reason}")
        pytest.skip(f"{name}: {reason}", allow_module_level=True)
