"""Subgroup ops of every type agree with the interpreter, in waves of 32 and 64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from elementwise import samples
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import COMPUTED, DTYPES, DType
from hsaco_tools import Emulated
from kernel_text import kernel

GROUPS, SIZE = 3, 192
KINDS = ("add", "mul", "min", "max", "and", "or", "xor")
WAVES = (("gfx1100", 32), ("gfx1201", 32), ("gfx942", 64), ("gfx1100", 64), ("gfx1201", 64))


@pytest.fixture(autouse=True)
def disassembler(require: Callable[..., None]) -> None:
    require("llvm-objdump")


def subgroup_kernel(
    t: DType, lines: list[str], outputs: list[str], size: int, lanes: int = 1
) -> Kernel:
    """out_n[i] = the result of line n, whose operands are %x, the lane number %l and a vote %v."""
    params = [f"x: {t} buffer read", "l: i32 buffer read"]
    params += [f"y{n}: {out} buffer write" for n, out in enumerate(outputs)]
    count = len(params)
    shape = (f"{{lanes={lanes}}} ", f"x{lanes}") if lanes > 1 else ("", "")
    body = [
        f"%{count} = global_id {{dim=0}} : i32",
        f"%{count + 1} = load %0, %{count} {shape[0]}: {t}{shape[1]}",
        f"%{count + 2} = load %1, %{count} : i32",
        f"%{count + 3} = const 0 : i32",
        f"%{count + 4} = gt %{count + 2}, %{count + 3} : bool",
    ]
    at = count + 5
    for n, (line, out) in enumerate(zip(lines, outputs, strict=True)):
        line = line.replace("%x", f"%{count + 1}").replace("%l", f"%{count + 2}")
        line = line.replace("%v", f"%{count + 4}")
        if "%k" in line:
            line, constant = line.split("%k")
            body.append(f"%{at} = const {constant} : i32")
            line += f"%{at}"
            at += 1
        body.append(f"%{at} = {line} : {out}{shape[1]}")
        body.append(f"store %{2 + n}, %{count}, %{at}")
        at += 1
    text = "\n".join([*body, "return"])
    return kernel(", ".join(params), text, f"{SIZE} 1 1", f"subgroup {size}")


def agree(k: Kernel, x: np.ndarray, lane: np.ndarray, arch: str, rng: np.random.Generator) -> None:
    def outputs() -> list[np.ndarray]:
        return [np.zeros(len(x), p.dtype.storage) for p in k.params[2:]]

    wanted, got = outputs(), outputs()
    report = interp.run(k, [x, lane, *wanted], (GROUPS, 1, 1))
    assert not report.problems
    Emulated(k, arch).run([x, lane, *got], (GROUPS, 1, 1), rng)
    for param, a, b in zip(k.params[2:], got, wanted, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=f"{param.name} of {k.body.ops}")


def tame(t: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values whose sums and products are exact."""
    if not t.is_float:
        return samples(t, count, rng)
    values = rng.integers(1, 3, count).astype(np.float32)
    if t.name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(t.storage)


@pytest.mark.parametrize(("arch", "size"), WAVES)
@pytest.mark.parametrize("t", [t for t in COMPUTED.values() if not t.is_bool], ids=str)
def test_reductions_and_scans_run_as_they_are_meant(
    t: DType, arch: str, size: int, rng: np.random.Generator
) -> None:
    lines = []
    for kind in KINDS if t.is_int else KINDS[:4]:
        lines.append(f'subgroup_reduce %x {{kind="{kind}"}}')
        lines += [
            f'subgroup_scan %x {{inclusive={word}, kind="{kind}"}}' for word in ("true", "false")
        ]
    lanes = int(rng.choice([1, 2, 4]))
    k = subgroup_kernel(t, lines, [str(t)] * len(lines), size, lanes)
    x = tame(t, SIZE * GROUPS * lanes, rng)
    agree(k, x, np.zeros(SIZE * GROUPS, np.int32), arch, rng)


@pytest.mark.parametrize("size", [32, 64])
def test_scans_keep_what_no_lane_changes(size: int, rng: np.random.Generator) -> None:
    """The first lane's own value, be it a NaN or a negative zero."""
    kinds = ("add", "min", "max")
    lines = [f'subgroup_scan %x {{inclusive=true, kind="{kind}"}}' for kind in kinds]
    k = subgroup_kernel(DTYPES["f32"], lines, ["f32"] * 3, size)
    x = np.full(SIZE * GROUPS, np.nan, np.float32)
    agree(k, x, np.zeros(len(x), np.int32), "gfx1100", rng)
    zeros = [np.zeros(len(x), np.float32) for _ in lines]
    Emulated(k, "gfx1100").run([-zeros[0], zeros[0].view(np.int32), *zeros], (GROUPS, 1, 1), rng)
    assert np.signbit(zeros[0]).all()


@pytest.mark.parametrize(("arch", "size"), WAVES)
@pytest.mark.parametrize("t", [DTYPES[n] for n in ("bool", "u8", "i32", "f16", "f64")], ids=str)
def test_values_move_between_lanes_as_they_are_meant(
    t: DType, arch: str, size: int, rng: np.random.Generator
) -> None:
    """By numbers of lanes that are known ahead, and by others."""
    moves = ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down")
    lines = [f"subgroup_{name} %x, %l" for name in moves]
    known = (0, 1, 2, 3, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 63)
    lines += [f"subgroup_{name} %x, %k{n}" for name in moves for n in known if n < size]
    k = subgroup_kernel(t, lines, [str(t)] * len(lines), size)
    count = SIZE * GROUPS
    lane = rng.integers(0, 2 * size, count).astype(np.int32)
    agree(k, samples(t, count, rng), lane, arch, rng)


@pytest.mark.parametrize(("arch", "size"), WAVES)
def test_votes_are_those_of_the_subgroup(arch: str, size: int, rng: np.random.Generator) -> None:
    lines = ["subgroup_ballot %v", "subgroup_any %v", "subgroup_all %v", "subgroup_elect"]
    word = "u32" if size == 32 else "u64"
    k = subgroup_kernel(DTYPES["i32"], lines, [word, "bool", "bool", "bool"], size)
    count = SIZE * GROUPS
    for share in (0.02, 0.5, 0.98):
        lane = (rng.random(count) < share).astype(np.int32)
        agree(k, np.zeros(count, np.int32), lane, arch, rng)


@pytest.mark.parametrize(("arch", "size"), WAVES)
def test_ids_of_subgroups(arch: str, size: int, rng: np.random.Generator) -> None:
    lines = ["subgroup_id", "subgroup_lane", "num_subgroups", "local_linear_id"]
    k = subgroup_kernel(DTYPES["i32"], lines, ["i32"] * 4, size)
    count = SIZE * GROUPS
    agree(k, np.zeros(count, np.int32), np.zeros(count, np.int32), arch, rng)


@pytest.mark.parametrize(("arch", "size"), WAVES)
def test_reductions_and_scans_of_a_constant(arch: str, size: int, rng: np.random.Generator) -> None:
    body = """
    %1 = global_id {dim=0} : i32
    %2 = const 18446744073709551610 : u64
    %3 = subgroup_scan %2 {inclusive=true, kind="or"} : u64
    %4 = subgroup_reduce %2 {kind="or"} : u64
    %5 = and %3, %4 : u64
    store %0, %1, %5
    return"""
    y = np.zeros(128, np.uint64)
    k = kernel("y: u64 buffer write", body, "128 1 1", f"subgroup {size}")
    Emulated(k, arch).run([y], (1, 1, 1), rng)
    assert (y == 2**64 - 6).all()
