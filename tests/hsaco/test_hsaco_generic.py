"""Code for a generic processor holds only what every processor of its family has, in the same bits:
its instructions are assembled for each of them.

One disassembly of all kernels and one assembly for each processor: what two kernels have in common
is assembled once.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gristmill.backends.hsaco.processors import PROCESSORS
from gristmill.ir.core import Kernel
from gristmill.runtime.devices.hsa.rules import FAMILIES
from hsaco_tools import compiled, lanes, shipped
from need import llvm_tool

GENERIC = [name for name, p in PROCESSORS.items() if p.generic]
# All kinds of code: sums over lanes and workgroups, tiles, matrix fragments, atomics, bytes.
SAMPLE = ("softmax", "matmul", "matmul_fragments", "histogram", "topk", "transpose", "unary")
_DISASSEMBLED = re.compile(r"\s+(\S.*?)\s*// [0-9A-F]+: .*")
_ASSEMBLED = re.compile(r"encoding: \[([^\]]*)\]")


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("llvm-objdump")
    require("llvm-mc")


def instructions(blobs: list[bytes], folder: Path) -> dict[str, None]:
    """The texts of all instructions in code objects."""
    files = []
    for n, blob in enumerate(blobs):
        files.append(folder / f"{n}.hsaco")
        files[-1].write_bytes(blob)
    command = [llvm_tool("llvm-objdump") or "llvm-objdump", "-d", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    parts = map(_DISASSEMBLED.fullmatch, done.stdout.splitlines())
    return {p[1]: None for p in parts if p and p[1] != "s_code_end"}


def assembled(texts: list[str], processor: str, wave: int) -> list[bytes] | str:
    """The bits of each instruction on a processor, or what the assembler says."""
    command = [llvm_tool("llvm-mc") or "llvm-mc", "-triple=amdgcn-amd-amdhsa", "-show-encoding"]
    command += [f"-mcpu={processor}", *(["-mattr=+wavefrontsize32"] if wave == 32 else [])]
    given = "\n".join(texts)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return done.stderr[:500]
    bits = _ASSEMBLED.findall(done.stdout)
    return [bytes(int(b, 16) for b in row.split(",")) for row in bits]


def check(generic: str, kernels: Iterable[Kernel], folder: Path) -> None:
    found = [*instructions([compiled(k, generic)[0] for k in kernels], folder)]
    assert len(found) > 500
    wave = lanes(generic)
    # Not what stands in the code: literals of 16 bits have upper halves that no text tells.
    expected = assembled(found, generic, wave)
    assert len(expected) == len(found)
    for member in FAMILIES[generic].split():
        got = assembled(found, member, wave)
        assert not isinstance(got, str), f"{member}: {got}"
        differ = [t for t, b, o in zip(found, expected, got, strict=True) if b != o]
        assert not differ, f"{member}: {differ[:5]}"


@pytest.mark.parametrize("generic", GENERIC)
def test_every_processor_of_a_family_has_the_instructions_of_its_code(
    generic: str, tmp_path: Path
) -> None:
    one_each = {k.name: k for _, k in shipped(f"hsaco-{generic}")}
    check(generic, (one_each[name] for name in SAMPLE), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("generic", GENERIC)
def test_every_processor_of_a_family_has_the_instructions_of_all_its_code(
    generic: str, tmp_path: Path
) -> None:
    check(generic, (k for _, k in shipped(f"hsaco-{generic}")), tmp_path)


def test_code_of_one_processor_is_not_taken_for_that_of_its_family(tmp_path: Path) -> None:
    """gfx950 has instructions that gfx942 lacks."""
    kernels = [k for _, k in shipped("hsaco-gfx950") if k.name == "matmul_fragments"][:2]
    found = instructions([compiled(k, "gfx950")[0] for k in kernels], tmp_path)
    assert isinstance(assembled([*found], "gfx950", 64), list)
    assert "not supported on this GPU" in assembled([*found], "gfx942", 64)
