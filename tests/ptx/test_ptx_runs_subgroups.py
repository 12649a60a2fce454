"""Subgroup ops of every type on the model agree with the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from elementwise import samples
from gristmill.ir import interp
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import COMPUTED, DTYPES, DType
from kernel_text import kernel
from ptx_model.host import Model

GROUPS, SIZE = 3, 96
KINDS = ("add", "mul", "min", "max", "and", "or", "xor")


def subgroup_kernel(t: DType, lines: list[str], outputs: list[str], lanes: int = 1) -> Kernel:
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
        body.append(f"%{at} = {line} : {out}{shape[1]}")
        body.append(f"store %{2 + n}, %{count}, %{at}")
        at += 1
    return kernel(", ".join(params), "\n".join([*body, "return"]), f"{SIZE} 1 1", "subgroup 32")


def agree(k: Kernel, x: np.ndarray, lane: np.ndarray, arch: str, seed: int) -> None:
    def outputs() -> list[np.ndarray]:
        return [np.zeros(len(x), p.dtype.storage) for p in k.params[2:]]

    wanted, got = outputs(), outputs()
    report = interp.run(k, [x, lane, *wanted], (GROUPS, 1, 1))
    assert not report.problems
    Model(k, arch).run([x, lane, *got], (GROUPS, 1, 1), seed=seed)
    for line, a, b in zip(k.body.ops, got, wanted, strict=False):
        np.testing.assert_array_equal(a, b, err_msg=str(line))


def tame(t: DType, count: int, rng: np.random.Generator) -> np.ndarray:
    """Values whose sums and products are exact."""
    if not t.is_float:
        return samples(t, count, rng)
    values = rng.integers(1, 3, count).astype(np.float32)
    if t.name == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(t.storage)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize("t", [t for t in COMPUTED.values() if not t.is_bool], ids=str)
def test_reductions_and_scans_run_as_they_are_meant(
    t: DType, arch: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    lines = []
    for kind in KINDS if t.is_int else KINDS[:4]:
        lines.append(f'subgroup_reduce %x {{kind="{kind}"}}')
        lines += [
            f'subgroup_scan %x {{inclusive={word}, kind="{kind}"}}' for word in ("true", "false")
        ]
    lanes = int(rng.choice([1, 2, 4]))
    k = subgroup_kernel(t, lines, [str(t)] * len(lines), lanes)
    x = tame(t, SIZE * GROUPS * lanes, rng)
    agree(k, x, np.zeros(SIZE * GROUPS, np.int32), arch, int(rng.integers(1 << 32)))


@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_values_move_between_lanes_as_they_are_meant(
    t: DType, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    moves = ("shuffle", "shuffle_xor", "shuffle_up", "shuffle_down")
    lines = [f"subgroup_{name} %x, %l" for name in moves]
    k = subgroup_kernel(t, lines, [str(t)] * len(lines))
    count = SIZE * GROUPS
    lane = rng.integers(0, 64, count).astype(np.int32)
    agree(k, samples(t, count, rng), lane, "sm_80", int(rng.integers(1 << 32)))


def test_votes_are_those_of_the_subgroup(
    rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    lines = ["subgroup_ballot %v", "subgroup_any %v", "subgroup_all %v", "subgroup_elect"]
    k = subgroup_kernel(DTYPES["i32"], lines, ["u32", "bool", "bool", "bool"])
    count = SIZE * GROUPS
    for share in (0.02, 0.5, 0.98):
        lane = (rng.random(count) < share).astype(np.int32)
        agree(k, np.zeros(count, np.int32), lane, "sm_80", int(rng.integers(1 << 32)))
