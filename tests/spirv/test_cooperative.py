"""Cooperative matrices: modules that the validator takes, and what they cannot express.

They run on hardware only: the drivers of a machine without a GPU lack the extension.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.backends.compile import CompileError, Options
from gristmill.backends.spirv.emit import emit, validate
from gristmill.ir.core import Kernel
from gristmill.ir.interp import run
from gristmill.ir.lang import *

OPS = {"load": 4457, "store": 4458, "multiply": 4459, "type": 4456}


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def panels(
    a: Read[f16],
    b: Read[f16],
    c: ReadWrite[O],
    n: i32,
    *,
    O: DType = f32,
    LB: str = "row",
    SHARED: bool = True,
    COOPERATIVE: bool = True,
    SUBGROUP: int = 32,
):
    """c = 2 (c + a @ b) - 1 of 16 x 16n by 16n x 32, half of the columns by each subgroup."""
    tile = workgroup_array(f16, (16, 24))
    s = subgroup_id()
    acc = fragment_load(fragment(O, "acc"), c, 16 * s, 32)
    for k in range(n):
        if SHARED:
            i = local_id(0)
            row = i // 4
            store_vector(tile, (row, i % 4), load_vector(a, row * (n * 4) + k * 4 + i % 4, 4))
            barrier()
            x = fragment_load(fragment(f16, "a"), tile, (0, 0))
        else:
            x = fragment_load(fragment(f16, "a"), a, k * 16, n * 16)
        if LB == "row":
            y = fragment_load(fragment(f16, "b"), b, k * 16 * 32 + 16 * s, 32)
        else:
            y = fragment_load(fragment(f16, "b"), b, 16 * s * 16 * n + k * 16, 16 * n, LB)
        acc = mma(x, y, acc)
        if SHARED:
            barrier()
    fragment_store(c, 16 * s, acc * 2.0 - 1.0, 32)


def opcodes(blob: bytes) -> set[int]:
    words = np.frombuffer(blob, np.uint32)
    found, at = set(), 5
    while at < len(words):
        found.add(int(words[at]) & 0xFFFF)
        at += int(words[at]) >> 16
    return found


@pytest.mark.parametrize("arch", ["vulkan1.1", "vulkan1.3"])
@pytest.mark.parametrize("constexprs", [
    {"O": o, "LB": lb, "SHARED": s} for o in ("f32", "f16") for lb in ("row", "column")
    for s in (True, False)
], ids=str)  # fmt: skip
def test_modules_are_valid_and_say_what_they_need(constexprs: dict[str, Any], arch: str) -> None:
    traced = panels.trace("test", **constexprs)
    emitted = emit(traced, arch, Options())
    validate(emitted.blob, arch, traced)
    assert set(OPS.values()) <= opcodes(emitted.blob)
    assert {"cooperative_matrix", "memory_model", "f16"} <= set(emitted.requires)


@pytest.mark.parametrize("options", [Options(), Options(checks=True)])
def test_a_kernel_that_does_not_ask_and_checked_ones_are_plain(options: Options) -> None:
    traced = panels.trace("test", COOPERATIVE=options.checks)
    emitted = emit(traced, "vulkan1.1", options)
    validate(emitted.blob, "vulkan1.1", traced)
    assert not set(OPS.values()) & opcodes(emitted.blob)
    assert not {"cooperative_matrix", "memory_model"} & set(emitted.requires)


def test_the_kernel_is_right_on_the_interpreter(rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((16, 48)), rng.standard_normal((48, 32))
    a, b = a.astype(np.float16), b.astype(np.float16)
    c = rng.standard_normal((16, 32)).astype(np.float32)
    got = c.copy()
    report = run(panels.trace("test"), [a, b, got, 3], (1, 1, 1))
    assert report.problems == ()
    expected = 2 * (c + a.astype(float) @ b.astype(float)) - 1
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


HEAD = "from __future__ import annotations\nfrom gristmill.ir.lang import *\n\n"


def kernel_of(line: str, folder: Path) -> Kernel:
    path = folder / "kernels_here.py"
    path.write_text(
        HEAD + "@kernel(workgroup=lambda: 32)\n"
        "def k(x: Read[f32], y: Write[f32], *, COOPERATIVE: bool = True, SUBGROUP: int = 32):\n"
        "    c = fragment_load(fragment(f32, 'acc'), x, 0, 16)\n"
        f"    {line}\n    fragment_store(y, 0, c, 16)\n"
    )
    spec = importlib.util.spec_from_file_location("kernels_here", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k.trace("test")


REFUSED = {
    "c = c - row_max(c)": "fragment_reduce of a fragment needs to know which lane",
    "c = exp(c)": "exp of a fragment needs to know",
    "c = max(c, 0.0)": "max of a fragment needs to know",
    "c = select(fragment_row(c.type) > 3, c, 0.0)": "fragment_coordinate of a fragment",
    "c = mma(fragment(f32, 'a')(1.0), fragment(f32, 'b')(1.0), c)": (
        "no cooperative matrix for fragment<f32,a,16x8>"
    ),
}


@pytest.mark.parametrize("line", REFUSED, ids=range(len(REFUSED)))
def test_what_needs_the_layout_is_refused_at_its_line(line: str, tmp_path: Path) -> None:
    traced = kernel_of(line, tmp_path)
    with pytest.raises(CompileError) as caught:
        emit(traced, "vulkan1.3", Options())
    assert REFUSED[line] in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.line == traced.body.ops[-2].loc.line - 1
