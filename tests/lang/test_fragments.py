"""Matrix fragments in the kernel language: what is refused, where, and with which words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.lang import Diagnostic
from gristmill.ir.verify import VerifyError

HEAD = (
    "@kernel(workgroup=lambda: 64)\n"
    "def k(x: Read[f16], y: Write[f32], n: i32, *, SUBGROUP: int = 32):\n"
)
LOAD_A = "a = fragment_load(fragment(f16, 'a'), x, 0, 16)"
LOAD_B = "b = fragment_load(fragment(f16, 'b'), x, 256, 16)"
ZERO = "c = fragment(f32, 'acc')(0.0)"
TILE = "t = workgroup_array(f16, (16, 64), swizzle=True)"
STORE = "fragment_store(y, 0, c, 16)"

REFUSED = {
    "fragment(f16, 'd')": "the role of a fragment is one of a, b, acc, row",
    "fragment(f16, 'a', (8, 8))": "a fragment of role a is 16x8, 16x16, 16x32, not 8x8",
    "fragment('f16', 'a')": "fragment takes an element type and a role",
    f"{LOAD_A}; {ZERO}; mma(a, a, c)": "operand 2 must have role b, not fragment<f16,a,16x16>",
    f"{LOAD_A}; {LOAD_B}; mma(a, b, fragment(i32, 'acc')(0))": "no product of fragments f16 x f16",
    f"a = fragment_load(fragment(f16, 'a', (16, 8)), x, 0, 16); {LOAD_B}; {ZERO}; mma(a, b, c)": (
        "products of f16 are 16 deep, not 8"
    ),
    f"{LOAD_A}; {ZERO}; mma(a, 1.0, c)": "operand 2 of mma is a fragment, found the float 1.0",
    "fragment_load(fragment(f32, 'a'), x, 0, 16)": "load of fragment<f32,a,16x8> from buffer",
    "fragment_load(fragment(f16, 'a'), x, 0)": "a stride is needed: 'x' has no rows",
    "fragment_load(fragment(f16, 'a'), x, 0, 16.0)": "a stride is an integer, found the float 16.0",
    "fragment_load(fragment(f16, 'a'), x, 0, f32(n))": "a stride is an integer, found f32",
    "fragment_load(fragment(f16, 'a'), x, 0, 12)": (
        "the stride of a fragment of f16 is a multiple of 8 (16 bytes), found 12"
    ),
    "fragment_load(fragment(f16, 'a'), x, 4, 16)": "the index of a fragment of f16 is a multiple",
    "fragment_load(fragment(f16, 'a'), x, 0, 16, 'diagonal')": "a layout is 'row' or 'column'",
    "fragment_load(f16, x, 0, 16)": "fragment_load takes a fragment type first, found the type f16",
    "p = private_array(f16, 256); fragment_load(fragment(f16, 'a'), p, 0, 16)": (
        "'p' is private to an invocation"
    ),
    "fragment_store(y, 0, 1.0, 16)": "fragment_store writes a fragment, found the float 1.0",
    f"{ZERO}; fragment_store(x, 0, convert(c, f16), 16)": "'x' is read-only",
    f"{LOAD_A}; fragment_store(y, 0, a, 16)": "operand 4 must have role acc",
    f"{ZERO}; y[0] = c": "expected f32 for an element of 'y', found fragment<f32,acc,16x16>",
    f"{ZERO}; subgroup_add(c)": "operand must be a scalar or vector, not fragment<f32,acc,16x16>",
    f"{ZERO}; c[0]": "expected a buffer, array, vector or tuple to index",
    f"{ZERO}\n    if c > 0.0:\n        {STORE}": "expected a bool as condition, found fragment",
    f"{LOAD_A}; row_max(a)": "operand must have role acc, not fragment<f16,a,16x16>",
    f"{ZERO}; convert(c, fragment(f16, 'b'))": "a fragment keeps its role and shape",
    f"{ZERO}; convert(c, fragment(i8, 'a'))": "a fragment keeps its role and shape",
    f"{ZERO}; {LOAD_A}; c + a": "operands of '+' have types",
    f"{ZERO}; c + n": "operands of '+' have types fragment<f32,acc,16x16> and i32",
    "workgroup_array(f16, (16, 48), True)": "rows of 8, 16, 32 ... chunks of 16 bytes",
    "workgroup_array(f16, (2, 12, 64), True)": "blocks of whole eights of rows",
    "workgroup_array(f16, 64, True)": "a swizzled array has rows",
    "workgroup_array(f16, (16, 64), 1)": "swizzle is True or False, found the int 1",
    f"{TILE}; t[5] = f16(0)": "takes 2 indices, found 1",
    f"{TILE}; fragment_load(fragment(f16, 'a'), t, 0)": "'t' is swizzled: give one index for each",
    f"{TILE}; fragment_load(fragment(f16, 'a'), t, (0, 0), 64)": "its rows have one stride",
    f"{TILE}; fragment_load(fragment(f16, 'a'), t, (0, 0), layout='column')": "layout 'row'",
    f"{TILE}; fragment_load(fragment(f16, 'a'), t, (4, 0))": "the row of a fragment in a swizzled",
    f"{TILE}; fragment_load(fragment(f16, 'a'), t, (0, 8))": "is a multiple of 16",
    f"{TILE}; fragment_store(t, (0, 0), fragment(f16, 'acc')(0))": "fragments are only loaded",
    "registers(fragment(f32, 'acc'), 2, 'x')": "expected fragment<f32,acc,16x16>",
}


@pytest.mark.parametrize("source", REFUSED, ids=range(len(REFUSED)))
def test_refused(source: str, load: Any) -> None:
    with pytest.raises(Diagnostic) as caught:
        load(HEAD + f"    {source}\n").k.trace("test")
    assert REFUSED[source] in caught.value.message
    assert caught.value.line > 4


@pytest.mark.parametrize(
    "source", [LOAD_A, ZERO + "; row_max(c)", "fragment_row(fragment(f32, 'acc'))"]
)
def test_a_kernel_without_a_subgroup_size_is_refused(source: str, load: Any) -> None:
    text = HEAD.replace(", *, SUBGROUP: int = 32", "") + f"    {source}\n"
    with pytest.raises((Diagnostic, VerifyError), match=r"SUBGROUP|subgroup size"):
        load(text).k.trace("test")


@pytest.mark.parametrize("size", [2, 128])
def test_a_subgroup_size_that_no_fragment_fits_is_refused(size: int, load: Any) -> None:
    text = HEAD.replace("lambda: 64", "lambda: 128") + f"    {ZERO}\n    {STORE}\n"
    with pytest.raises((Diagnostic, VerifyError), match="subgroups of 4, 8, 16, 32, 64"):
        load(text).k.trace("test", SUBGROUP=size)


LANE = f"{ZERO}\n    if subgroup_lane() < 3:\n        "
DIVERGENT = {
    LANE + STORE: "under a condition that differs",
    f"{LANE}c = c * 2.0\n    {STORE}": "under a condition that differs",
    f"{ZERO}\n    for i in range(subgroup_lane()):\n        c = c + 1.0\n    {STORE}": "differs",
    f"{ZERO}\n    c = c * f32(subgroup_lane())\n    {STORE}": "differs within a subgroup",
    f"{ZERO}\n    fragment_store(y, 16 * local_id(0), c, 16)": "differs within a subgroup",
    f"{ZERO}\n    fragment_store(y, 0, c, 16 * local_id(0))": "differs within a subgroup",
}


@pytest.mark.parametrize("source", DIVERGENT, ids=range(len(DIVERGENT)))
def test_control_and_scalars_are_the_same_for_a_subgroup(source: str, load: Any) -> None:
    with pytest.raises((Diagnostic, VerifyError), match=DIVERGENT[source]):
        load(HEAD + f"    {source}\n").k.trace("test")


def test_whole_subgroups_may_go_their_own_ways(load: Any, run: Any) -> None:
    module = load(
        "@kernel(workgroup=lambda: 64)\n"
        "def k(y: Write[f32], *, SUBGROUP: int = 32):\n"
        "    c = fragment(f32, 'acc')(1.0)\n"
        "    if subgroup_id() == 1:\n"
        "        for i in range(3):\n"
        "            c = c * 2.0 + subgroup_id()\n"
        "    fragment_store(y, 256 * subgroup_id(), c, 16)\n".replace("+ subgroup_id()", "+ 1.0")
    )
    y = np.zeros(512, np.float32)
    run(module.k, y)
    assert y.reshape(2, 256).tolist() == [[1.0] * 256, [15.0] * 256]


def test_arrays_of_fragments_and_functions_of_elements(load: Any, run: Any, rng: Any) -> None:
    module = load(
        "@device\ndef relu(v):\n    return max(v, 0)\n\n"
        "@device\ndef scaled(v, r):\n    return relu(v) * r - 1.0\n\n"
        "@kernel(workgroup=lambda: 32)\n"
        "def k(x: Read[f32], y: Write[f16], s: f32, *, SUBGROUP: int = 32):\n"
        "    t = fragment(f32, 'acc')\n"
        "    tiles = registers(t, (2, 2), 0.0)\n"
        "    for i in static_range(2):\n"
        "        for j in static_range(2):\n"
        "            tiles[i, j] = fragment_load(t, x, 512 * i + 16 * j, 32)\n"
        "    for i in static_range(2):\n"
        "        for j in static_range(2):\n"
        "            v = scaled(tiles[i, j], row_add(tiles[i, 0])) / s\n"
        "            fragment_store(y, 512 * i + 16 * j, convert(v, f16), 32)\n"
    )
    x = rng.integers(-8, 8, (32, 32)).astype(np.float32)
    y = np.zeros((32, 32), np.float16)
    run(module.k, x, y, 4.0)
    rows = x[:, :16].sum(1, keepdims=True)
    assert (y == ((np.maximum(x, 0) * rows - 1) / 4).astype(np.float16)).all()
