"""Cooperative matrices: modules that the validator takes, and what they cannot express.

They run on hardware only: the drivers of a machine without a GPU lack the extension.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fragment_kernels import attention_case
from gristmill.backends.compile import CompileError, Options
from gristmill.backends.spirv.emit import emit, validate
from gristmill.ir.core import Kernel
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.interp import run
from gristmill.ir.lang import *
from gristmill.ir.passes.fragments_hidden import HiddenFragments
from gristmill.ir.targets import FEATURES
from gristmill.kernels.family import decode, normal
from kernel_text import disassembly
from modules import load_module

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


def capabilities(blob: bytes) -> set[int]:
    words = np.frombuffer(blob, np.uint32)
    found, at = set(), 5
    while int(words[at]) & 0xFFFF == 17:
        found.add(int(words[at + 1]))
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


OTHERS: dict[str, tuple[tuple[int, int], set[str]]] = {
    "bf16": ((5116, 5118), {"cooperative_matrix_bf16", "i16"}),
    "i8": ((39,), {"cooperative_matrix_i8", "i8", "storage8"}),
    "u8": ((39,), {"cooperative_matrix_i8", "i8", "storage8"}),
}


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def scaled(
    a: Read[T],
    b: Read[T],
    c: Write[f32],
    d: ReadWrite[S],
    *,
    T: DType = i8,
    S: DType = i32,
    K: int = 32,
    COOPERATIVE: bool = True,
    SUBGROUP: int = 32,
):
    """d += 3 (a @ b), one of them by each subgroup; c = d of the first as f32, halved."""
    tile = workgroup_array(T, (16, K + 16))
    for i in range(local_id(0), 16 * K, 64):
        tile[i // K, i % K] = a[i]
    barrier()
    x = fragment_load(fragment(T, "a"), tile, (0, 0))
    y = fragment_load(fragment(T, "b"), b, 0, 16)
    acc = mma(x, y, fragment(S, "acc")(0))
    s = subgroup_id()
    old = fragment_load(fragment(S, "acc"), d, 256 * s, 16)
    fragment_store(d, 256 * s, acc * S(3) + old, 16)
    if s == 0:
        fragment_store(c, 0, convert(acc, fragment(f32, "acc")) * 0.5, 16)


@pytest.mark.parametrize("arch", ["vulkan1.1", "vulkan1.3"])
@pytest.mark.parametrize("t", OTHERS)
def test_other_types_have_features_of_their_own(t: str, arch: str) -> None:
    sums, depth = ("f32", 16) if t == "bf16" else ("i32", 32)
    traced = scaled.trace("test", T=t, S=sums, K=depth)
    emitted = emit(traced, arch, Options())
    validate(emitted.blob, arch, traced)
    assert set(OPS.values()) <= opcodes(emitted.blob)
    found, needed = OTHERS[t]
    assert needed | {"memory_model"} <= set(emitted.requires)
    assert "cooperative_matrix" not in emitted.requires
    assert set(found) <= capabilities(emitted.blob)
    text = disassembly(emitted)
    assert ("MatrixASignedComponentsKHR" in text) == (t == "i8")
    assert set(needed) <= FEATURES.keys()


@pytest.mark.parametrize("t", OTHERS)
def test_other_types_are_right_on_the_interpreter(t: str, rng: np.random.Generator) -> None:
    dtype = DTYPES[t]
    sums, depth = (f32, 16) if t == "bf16" else (i32, 32)
    a, b = normal(rng, (16, depth), dtype), normal(rng, (depth, 16), dtype)
    old = rng.integers(-9, 9, (2, 16, 16)).astype(sums.storage)
    c, d = np.zeros((16, 16), np.float32), old.copy()
    traced = scaled.trace("test", T=t, S=sums, K=depth)
    lowered = HiddenFragments()(traced)
    assert run(lowered, [a, b, c, d], (1, 1, 1)).problems == ()
    product = decode(a, dtype).astype(float) @ decode(b, dtype).astype(float)
    np.testing.assert_allclose(c, product / 2, rtol=0, atol=1e-3)
    np.testing.assert_allclose(d, 3 * product + old, rtol=0, atol=1e-3)


@pytest.mark.parametrize("arch", ["vulkan1.1", "vulkan1.3"])
def test_rows_go_through_workgroup_memory(arch: str, rng: np.random.Generator) -> None:
    case = attention_case(rng, 32, 32, cooperative=True)
    emitted = emit(case.kernel, arch, Options())
    validate(emitted.blob, arch, case.kernel)
    assert set(OPS.values()) <= opcodes(emitted.blob)
    assert emitted.shared_bytes == 16 * 20 * 4 + 16 * 24 * 2  # rows of f32, and weights in f16
    text = disassembly(emitted)
    scopes = re.findall(r"OpControlBarrier (%\d+) (%\d+)", text)
    assert len(scopes) >= 4
    for scope, memory in scopes:
        assert re.search(rf"{scope} = OpConstant %\d+ 3\n", text)
        assert re.search(rf"{memory} = OpConstant %\d+ 2\n", text)


HEAD = "from __future__ import annotations\nfrom gristmill.ir.lang import *\n\n"


def kernel_of(line: str, folder: Path) -> Kernel:
    path = folder / "kernels_here.py"
    path.write_text(
        HEAD + "@kernel(workgroup=lambda: 32)\n"
        "def k(x: Read[f32], y: Write[f32], *, COOPERATIVE: bool = True, SUBGROUP: int = 32):\n"
        "    tile = workgroup_array(f16, (16, 64), swizzle=True)\n"
        "    tile[local_id(0) // 2, local_id(0) % 2] = f16(1)\n    barrier()\n"
        "    c = fragment_load(fragment(f32, 'acc'), x, 0, 16)\n"
        "    d = fragment(i32, 'acc')(0)\n"
        f"    {line}\n    fragment_store(y, 0, c, 16)\n"
    )
    return load_module(path, "kernels_here").k.trace("test")


def made(a: str, b: str) -> str:
    """A product of two types."""
    return f"fragment({a}, 'a')({a}(1)), fragment({b}, 'b')({b}(1))"


REFUSED = {
    f"c = mma({made('f32', 'f32')}, c)": "no cooperative matrices for products of f32 and f32",
    f"c = mma({made('f8e4m3', 'f8e5m2')}, c)": "products of f8e4m3 and f8e5m2",
    f"d = mma({made('u8', 'i8')}, d)": "products of u8 and i8",
    f"d = mma({made('i8', 'i8')}, mma({made('u8', 'u8')}, d))": "products of i8 and those of u8",
    "c = mma(fragment_load(fragment(f16, 'a'), tile, (0, 0)), fragment(f16, 'b')(1.0), c)": (
        "rows that are swizzled have no one stride"
    ),
}


@pytest.mark.parametrize("line", REFUSED, ids=range(len(REFUSED)))
def test_other_products_are_refused_at_their_line(line: str, tmp_path: Path) -> None:
    traced = kernel_of(line, tmp_path)
    with pytest.raises(CompileError) as caught:
        emit(traced, "vulkan1.3", Options())
    assert REFUSED[line] in caught.value.message
    assert caught.value.loc is not None
    assert caught.value.loc.line == traced.body.ops[-2].loc.line - 1
    emit(traced, "vulkan1.3", Options(checks=True))  # by plain code
