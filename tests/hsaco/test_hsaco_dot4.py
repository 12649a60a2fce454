"""Products of four bytes: one instruction where the processor has it, and right everywhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import i32, u32
from gristmill.ir.ops.meaning import dot4
from hsaco_tools import Emulated, compiled
from kernel_text import kernel
from need import llvm_tool

SIGNS = (("i32", "i32"), ("u32", "u32"), ("i32", "u32"), ("u32", "i32"))
COUNT = 256


def dots(a: str, b: str) -> Kernel:
    """c = dot4(a, b, c) with bytes of these kinds."""
    c = "u32" if (a, b) == ("u32", "u32") else "i32"
    parameters = f"a: {a} buffer read, b: {b} buffer read, c: {c} buffer readwrite"
    return kernel(
        parameters,
        f"""
    %3 = global_id {{dim=0}} : i32
    %4 = load %0, %3 : {a}
    %5 = load %1, %3 : {b}
    %6 = load %2, %3 : {c}
    %7 = dot4 %4, %5, %6 : {c}
    store %2, %3, %7
    return""",
        workgroup="64 1 1",
    )


def expected(arch: str, a: str, b: str) -> list[str]:
    """The instructions that multiply."""
    if arch == "gfx9-generic":
        return []
    if re.match("gfx1[12]", arch):
        return ["v_dot4_u32_u8" if a == b == "u32" else "v_dot4_i32_iu8"]
    if a == b:
        return ["dot4_u32_u8" if a == "u32" else "dot4c?_i32_i8"]
    return ["dot4c?_i32_i8"] * 3


@pytest.mark.parametrize("arch", PROCESSORS)
def test_the_instructions(arch: str, require: Callable[..., None]) -> None:
    require("llvm-objdump")
    for a, b in SIGNS:
        blob, _ = compiled(dots(a, b), arch)
        command = [llvm_tool("llvm-objdump") or "llvm-objdump", "-d", "--no-show-raw-insn", "-"]
        done = subprocess.run(command, input=blob, capture_output=True, check=True, timeout=60)
        found = re.findall(r"v_dot4\w*", done.stdout.decode())
        wanted = expected(arch, a, b)
        assert len(found) == len(wanted), (a, b, found)
        for one, pattern in zip(found, wanted, strict=True):
            assert re.search(pattern, one), (a, b, found)
        signs = [re.search(r"neg_lo:\[(.),(.)", done.stdout.decode())]
        if signs[0] and a != b:
            assert signs[0].groups() == tuple("1" if t == "i32" else "0" for t in (a, b))


@pytest.mark.parametrize("arch", ["gfx906", "gfx908", "gfx942", "gfx1100", "gfx1201"])
def test_what_they_compute(
    arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("llvm-objdump")
    for a, b in SIGNS:
        words = [rng.integers(0, 1 << 32, COUNT, np.uint32) for _ in range(3)]
        for word in words[:2]:
            word[:4] = [0, 0x80808080, 0x7F7F7F7F, 0xFFFFFFFF]
        x, y, z = (
            w.view(np.int32 if t == "i32" else np.uint32)
            for w, t in zip(words, (a, b, "u32" if a == b == "u32" else "i32"), strict=True)
        )
        want = dot4(x, y, z, out=u32 if z.dtype == np.uint32 else i32)
        Emulated(dots(a, b), arch).run([x, y, z], (COUNT // 64, 1, 1), rng)
        assert (z == want).all(), (a, b)
