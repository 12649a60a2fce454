"""Vectors whose bits are taken: bytes permuted, pairs added and vectors loaded as whole words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gristmill.backends.compile import Options
from gristmill.backends.ptx.emit import emit
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from ptx_model.host import Model
from ptx_tools import assembled


@kernel(workgroup=lambda: 32, grid=lambda: ceil_div(len(y), 32))
def permuted(
    x: Read[u32], y: Write[u32], *, T: DType = u8, PLACES: tuple = (0, 4, 1, 5)
):  # fmt: skip
    i = global_id(0)
    if i < len(y):
        a = bitcast(x[2 * i], vec(T, 32 // T.bits))
        b = bitcast(x[2 * i + 1], vec(T, 32 // T.bits))
        y[i] = bitcast(shuffle(a, b, PLACES), u32)


@device
def plus(a, b):
    return a + b


@device
def minus(a, b):
    return a - b


@device
def by(a, b):
    return a * b


@kernel(
    workgroup=lambda: 32,
    grid=lambda: ceil_div(len(y), 32),
    fast=lambda: ("approximate", "contract") if FAST else (),
)
def computed(x: Read[u32], y: Write[u32], *, OP: Function = plus, FAST: bool = False):
    i = global_id(0)
    if i < len(y):
        y[i] = bitcast(OP(bitcast(x[2 * i], f16x2), bitcast(x[2 * i + 1], f16x2)), u32)


@kernel(workgroup=lambda: 32, grid=lambda: ceil_div(len(y), 64))
def loaded(x: Read[T], y: Write[u32], *, T: DType = i8):
    i = global_id(0)
    if i < len(y) // 2:
        words = bitcast(load_vector(x, i, 64 // T.bits), u32x2)
        y[2 * i] = words[1]
        y[2 * i + 1] = words[0]


def text(kernel: Kernel) -> str:
    blob = emit(kernel, "sm_80", Options()).blob.decode()
    assembled(blob, "sm_80")
    return blob


@pytest.mark.parametrize(
    ("t", "places"),
    [("u8", (0, 4, 1, 5)), ("i8", (6, 2, 7, 3)), ("f16", (1, 2)), ("bf16", (3, 0))],
)
def test_a_shuffle_of_words_is_one_permutation_of_bytes(
    t: str, places: tuple[int, ...], rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    made = permuted.trace("s", T=t, PLACES=places)
    assert text(made).count("prmt.b32") == 1
    x = rng.integers(0, 1 << 32, 400, np.uint64).astype(np.uint32)
    y = np.zeros(200, np.uint32)
    Model(made, "sm_80").run([x, y], (7, 1, 1))
    cells = x.view(np.uint8 if len(places) == 4 else np.uint16).reshape(200, -1)
    assert (y.view(cells.dtype).reshape(200, -1) == cells[:, list(places)]).all()


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(("op", "of"), [(plus, np.add), (minus, np.subtract), (by, np.multiply)])
def test_pairs_of_f16_keep_denormals_and_signs_of_zero_also_where_f32_flushes(
    op: DeviceFunction, of: np.ufunc, fast: bool, require: Callable[..., None]
) -> None:
    require("gcc")
    made = computed.trace("s", OP=op, FAST=fast)
    assert "fma.rn.f16x2" in text(made)
    some = np.array(
        [0.0, -0.0, 1.0, -1.0, 6e-8, -3e-5, 65504.0, np.inf, 1152.0, 1024.5, 0.1], np.float16
    )
    a, b = (g.reshape(-1) for g in np.meshgrid(some, some))
    a, b = np.append(a, a[:1]), np.append(b, b[:1])  # an even number
    x = np.stack([a.reshape(-1, 2), b.reshape(-1, 2)], 1).reshape(-1).view(np.uint32)
    y = np.zeros(len(x) // 2, np.uint32)
    Model(made, "sm_80").run([x.copy(), y], (-(-len(y) // 32), 1, 1))
    with np.errstate(all="ignore"):
        wanted = of(a, b)
    found = y.view(np.float16)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    assert (np.signbit(found) == np.signbit(wanted))[numbers].all()


@pytest.mark.parametrize("t", ["i8", "f8e4m3", "f16", "i16"])
def test_words_of_a_loaded_vector_are_in_order(
    t: str, rng: np.random.Generator, require: Callable[..., None]
) -> None:
    require("gcc")
    made = loaded.trace("s", T=t)
    code = text(made)
    assert "shl" not in code.split("ld.global")[-1].split("st.global")[0]
    words = rng.integers(0, 1 << 32, 128, np.uint64).astype(np.uint32)
    y = np.zeros(128, np.uint32)
    storage = made.params[0].dtype.storage
    Model(made, "sm_80").run([words.view(storage), y], (2, 1, 1))
    assert (y.reshape(-1, 2)[:, ::-1] == words.reshape(-1, 2)).all()
