"""Buffers stored to as vectors and as scalars: by components where the device allows it."""

from __future__ import annotations

import numpy as np

from gristmill.backends.compile import Options
from gristmill.backends.wgsl.emit import emit
from gristmill.ir.core import Kernel
from kernel_text import kernel
from wgpu_driver import WgpuDriver

# Invocation i of 32 stores element 4 * i + i % 4 of the first half, and all of item i of the other.
BODY = """
  %2 = local_id {dim=0} : i32
  %3 = const 2 : i32
  %4 = const 3 : i32
  %5 = const 32 : i32
  %6 = shl %2, %3 : i32
  %7 = and %2, %4 : i32
  %8 = add %6, %7 : i32
  %9 = load %0, %8 : T
  store %1, %8, %9
  %10 = add %2, %5 : i32
  %11 = load %0, %10 {lanes=4} : Tx4
  store %1, %10, %11
  return"""


def made(name: str) -> Kernel:
    params = f"x: {name} buffer read, y: {name} buffer write"
    return kernel(params, BODY.replace("T", name))


def test_a_buffer_of_items_is_declared_where_components_may_be_stored() -> None:
    for arch, item, requires in (
        ("webgpu", "array<f32>", ()),
        ("webgpu:component_stores", "array<vec4<f32>>", ("component_stores",)),
    ):
        emitted = emit(made("f32"), arch, Options())
        assert f"> y_1: {item};" in emitted.blob.decode()
        assert emitted.requires == requires
    unused = kernel("x: f32 buffer read, y: f32 buffer write", "\n  return")
    assert emit(unused, "webgpu:component_stores", Options()).requires == ()
    alone = kernel(
        "x: f32 buffer read, y: f32 buffer write",
        "\n  %2 = local_id {dim=0} : i32\n  %3 = load %0, %2 : f32\n  store %1, %2, %3\n  return",
    )
    assert emit(alone, "webgpu:component_stores", Options()).requires == ()


def test_components_are_stored_alone(wgpu_driver: WgpuDriver, rng: np.random.Generator) -> None:
    if wgpu_driver.label not in ("lavapipe", "swiftshader"):
        return  # a browser may write whole items
    x = rng.random(256, np.float32)
    y = np.full(256, -1, np.float32)
    expected = y.copy()
    places = np.arange(32) * 4 + np.arange(32) % 4
    expected[places], expected[128:] = x[places], x[128:]
    k = made("f32")
    wgpu_driver.launch(k, emit(k, "webgpu:component_stores", Options()), [x, y], (1, 1, 1))
    np.testing.assert_array_equal(y, expected)
