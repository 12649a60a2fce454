"""What the text of a module holds, and what has none."""

from __future__ import annotations

import re

import pytest

from gristmill.backends.compile import CompileError, Options
from gristmill.backends.wgsl.emit import emit
from gristmill.ir.core import Kernel
from kernel_text import kernel

COPY = """
  %2 = local_id {dim=0} : i32
  %3 = load %0, %2 : T
  store %1, %2, %3
  return"""


def copy(name: str) -> Kernel:
    return kernel(f"x: {name} buffer read, y: {name} buffer write", COPY.replace("T", name))


def text(k: Kernel, arch: str = "webgpu") -> str:
    return emit(k, arch, Options()).blob.decode()


def test_no_feature_is_asked_for_without_need() -> None:
    for name in ("i32", "u32", "f32", "i8", "u16", "f16", "bf16", "bool"):
        made = emit(copy(name), "webgpu", Options())
        assert made.requires == ()
        head = made.blob.decode().partition("@group")[0]
        assert "enable" not in head
        assert "requires" not in head


def test_native_halves_are_declared() -> None:
    made = emit(copy("f16"), "webgpu:f16", Options())
    assert made.blob.decode().startswith("enable f16;\n")
    assert made.requires == ("f16",)


@pytest.mark.parametrize(("name", "feature"), [("i64", "i64"), ("u64", "i64"), ("f64", "f64")])
def test_wide_types_are_a_capability(name: str, feature: str) -> None:
    assert emit(copy(name), "webgpu", Options()).requires == (feature,)


def test_names_of_the_source_never_meet_words_of_wgsl() -> None:
    made = text(kernel("loop: f32 buffer read, target: f32 buffer write", COPY.replace("T", "f32")))
    assert " loop_0: " in made
    assert " target_1: " in made


def test_names_that_wgsl_does_not_take_are_replaced() -> None:
    made = text(kernel("_1: f32 buffer read, größe: f32 buffer write", COPY.replace("T", "f32")))
    assert " buffer_0: " in made
    assert " buffer_1: " in made


def test_infinities_and_nans_are_made_at_run_time() -> None:
    body = """
      %1 = const {} : f32
      %2 = const 0 : i32
      store %0, %2, %1
      return"""
    for value in ("inf", "-inf", "nan", "1e-45", "-0.0"):
        made = text(kernel("y: f32 buffer write", body.format(value)))
        assert "var<private> zero: u32 = 0u;" in made
        assert "bitcast<f32>(zero | " in made


def test_the_greatest_number_is_not_written_as_a_greater_one() -> None:
    """Its shortest decimals are greater, which Chromium refuses."""
    greatest = 3.4028234663852886e38
    body = f"%1 = const {-greatest!r} : f32\n%2 = const 0 : i32\nstore %0, %2, %1\nreturn"
    (number,) = re.findall(r"-([0-9.]+e\+?38)f", text(kernel("y: f32 buffer write", body)))
    assert float(number) == greatest


def test_a_break_out_of_a_switch_is_a_chain_of_ifs() -> None:
    body = """
      %2 = const 0 : i32
      %3 = const 9 : i32
      %4 = load %0, %2 : i32
      %5 = for %2, %3, %2 : i32 body(%6: i32, %7: i32) {
        %8 = switch %4 {cases=[1]} : i32 case {
          break %7
        } default {
          %9 = add %7, %6 : i32
          yield %9
        }
        continue %8
      }
      store %1, %2, %5
      return"""
    made = text(kernel("x: i32 buffer read, y: i32 buffer write", body))
    assert "switch" not in made
    assert "break;" in made


def test_high_words_of_32_bit_products_need_no_64_bit_type() -> None:
    for name in ("i32", "u32"):
        body = COPY.replace("store %1, %2, %3", "%4 = mul_high %3, %3 : T\n  store %1, %2, %4")
        params = f"x: {name} buffer read, y: {name} buffer write"
        made = emit(kernel(params, body.replace("T", name)), "webgpu", Options())
        assert made.requires == ()
        assert "64" not in made.blob.decode()


def test_no_vector_of_constants_with_a_zero_lane_divides() -> None:
    """A compiler of WGSL refuses such a division; at run time it is defined."""
    body = """
      %1 = const 0 : i32
      %2 = const 3 : u32
      %3 = const 0 : u32
      %4 = load %0, %1 {lanes=2} : u32x2
      %5 = vector %2, %3 : u32x2
      %6 = mod %4, %5 : u32x2
      store %0, %1, %6
      return"""
    made = text(kernel("x: u32 buffer readwrite", body))
    assert re.search(r"let c_\d+ = vec2<u32>\(3u, 0u\);", made)
    assert "% vec2<u32>(3u, 0u)" not in made


def test_a_vector_made_of_the_lanes_of_another_is_one_of_constants() -> None:
    body = """
      %1 = const 0 : i32
      %2 = const 3 : u32
      %3 = const 0 : u32
      %4 = load %0, %1 {lanes=2} : u32x2
      %5 = splat %2 : u32x2
      %6 = insert %5, %3 {lane=1} : u32x2
      %7 = shuffle %5, %6 {lanes=[0, 3]} : u32x2
      %8 = mod %4, %6 : u32x2
      %9 = mod %8, %7 : u32x2
      store %0, %1, %9
      return"""
    made = text(kernel("x: u32 buffer readwrite", body))
    assert len(re.findall(r"let \w+ = vec2<u32>\(3u, 0u\);", made)) == 2
    assert "% vec2" not in made


def test_lanes_of_vectors_of_constants_are_the_constants() -> None:
    body = """
      %1 = const 0 : i32
      %2 = load %0, %1 : i32
      %3 = splat %1 : i32x4
      %4 = insert %3, %2 {lane=0} : i32x4
      %5 = not %4 : i32x4
      store %0, %1, %5
      return"""
    made = text(kernel("x: i32 buffer readwrite", body))
    assert re.search(r"vec4<i32>\(\w+, 0i, 0i, 0i\)", made)


def test_bindings_are_writable_where_the_parameter_is() -> None:
    """A layout of bindings is made from the manifest, also for what is never written."""
    params = "x: i32 buffer read, y: i32 buffer write, z: i32 buffer readwrite"
    made = text(kernel(params, "\n  return"))
    found = re.findall(r"var<storage, (\w+)> (\w)_", made)
    assert found == [("read", "x"), ("read_write", "y"), ("read_write", "z")]


def test_an_unknown_arch_is_refused_with_the_known_ones() -> None:
    for arch in ("webgpu:f64", "core", "webgpu:"):
        with pytest.raises(CompileError, match="known: webgpu, with suffixes out of"):
            emit(copy("f32"), arch, Options())
