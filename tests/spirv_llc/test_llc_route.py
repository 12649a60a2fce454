"""What the route through LLVM makes of a kernel: a corrected module, or a typed refusal."""

from __future__ import annotations

import pickle
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gristmill.backends.compile import CompileError, CompilerCrashError, Options, compile_kernel
from gristmill.backends.spirv_llc import binary, corrections, interface, llc
from gristmill.backends.spirv_llc import emit as route
from gristmill.backends.spirv_llc.errors import RouteError
from gristmill.ir.core import Kernel
from gristmill.ir.lang import *
from gristmill.ir.text import print_kernel
from need import tool

# LLVM's own pass on bit casts ends the process on this.
DEADLY = """
@a = internal addrspace(10) global [8 x float] poison
define void @"kernel."() "hlsl.shader"="compute" "hlsl.numthreads"="32,1,1" {
  store [8 x float] zeroinitializer, ptr addrspace(10) @a
  ret void
}
"""


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def everything(x: Read[u8], y: ReadWrite[f32], n: ReadWrite[i32], a: f32):
    """A loop, workgroup memory, barriers, an atomic, a product, sum, difference, a narrow type."""
    tile = workgroup_array(f32, 32)
    i = local_id(0)
    for _ in range(64):
        tile[i] = a * y[i] + f32(x[i])
        barrier()
        y[i] = tile[31 - i] - a
        barrier()
    atomic_add(n, 0, 3)


def test_an_llc_that_is_ended_from_outside_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "llc-22"
    monkeypatch.setattr(llc, "program", lambda: (str(path), "22.1.0"))
    for ends, kind, words in (
        ("KILL", CompilerCrashError, "llc was ended by SIGKILL from outside"),
        ("ABRT", RouteError, r"no module by way of LLVM \(llc\): llc ended by signal 6"),
    ):
        path.write_text(f"#!/bin/sh\ncat > {tmp_path}/module; kill -{ends} $$\n")
        path.chmod(0o755)
        with pytest.raises(CompileError, match=words) as caught:
            route.emit(everything.trace("s"), "vulkan1.1", Options())
        assert type(caught.value) is kind


@pytest.fixture
def traced(require: Callable[..., None]) -> Kernel:
    require("llc")
    return everything.trace("s")


def listing(k: Kernel, arch: str, require: Callable[..., None]) -> str:
    require("spirv-dis")
    blob = route.emit(k, arch, Options()).blob
    run = subprocess.run(
        [str(tool("spirv-dis")), "--raw-id", "-"], input=blob, capture_output=True, check=True
    )
    return run.stdout.decode()


@pytest.mark.parametrize(("arch", "version"), [("vulkan1.1", "1.3"), ("vulkan1.3", "1.6")])
def test_what_llvm_writes_wrongly_is_corrected(
    traced: Kernel, arch: str, version: str, require: Callable[..., None]
) -> None:
    text = listing(traced, arch, require)
    assert f"; Version: {version}\n" in text
    constants = dict(re.findall(r"(%\d+) = OpConstant %\d+ (\d+)", text))
    barriers = re.findall(r"OpControlBarrier (%\d+) (%\d+) (%\d+)", text)
    assert {tuple(constants[n] for n in found) for found in barriers} == {("2", "2", "328")}
    assert len(barriers) == 2
    (atomic,) = re.findall(r"OpAtomicIAdd %\d+ %\d+ (%\d+) (%\d+)", text)
    assert [constants[n] for n in atomic] == ["1", "0"]
    assert text.count(" Block") == 4
    for operation in ("OpFMul", "OpFAdd", "OpFSub"):
        results = re.findall(rf"(%\d+) = {operation} ", text)
        assert results
        for result in results:
            assert f"OpDecorate {result} NoContraction" in text
    assert re.findall(r"OpLoopMerge %\d+ %\d+ (\w+)", text) == ["None"]
    capabilities = re.findall(r"OpCapability (\w+)", text)
    assert capabilities == ["Shader", "StorageBuffer8BitAccess"]
    assert ("SPV_KHR_8bit_storage" in text) == (arch == "vulkan1.1")
    for word in ("OpName", "OpSource", "Linkage", "Aligned", "OpFunctionCall", "OpConstantNull"):
        assert word not in text
    (listed,) = re.findall(r'OpEntryPoint GLCompute %\d+ "everything"((?: %\d+)*)', text)
    inputs = len(re.findall(r"OpVariable %\d+ Input", text))
    variables = len(re.findall(r"OpVariable %\d+ (?!Function)", text))
    assert len(listed.split()) == (inputs if arch == "vulkan1.1" else variables)


def test_products_and_sums_are_fused_where_a_kernel_says_so(
    traced: Kernel, require: Callable[..., None]
) -> None:
    assert "NoContraction" in listing(traced, "vulkan1.1", require)
    assert "NoContraction" not in listing(replace(traced, fast=("contract",)), "vulkan1.1", require)


def test_hints_of_loops_are_none_whatever_llvm_writes(traced: Kernel) -> None:
    """In modules with atomics it may write any number, by what lies in its memory."""
    module = binary.parse(route.emit(traced, "vulkan1.1", Options()).blob)
    (merge,) = (i for i in module.instructions if i.op == 246)
    merge.words[2:] = [0x187E1698, 7]
    corrections.correct(module, "vulkan1.1", "everything", True)
    assert merge.words[2:] == [0]


@pytest.mark.parametrize("name", ["main", "exp", "kernel", "_", "printf", "größe", "x" * 300])
def test_a_kernel_may_bear_any_name(traced: Kernel, name: str) -> None:
    module = binary.parse(route.emit(replace(traced, name=name), "vulkan1.1", Options()).blob)
    assert interface.read(module).entry == name
    plain = binary.parse(route.emit(traced, "vulkan1.1", Options()).blob)
    for m in (module, plain):
        m.instructions = [i for i in m.instructions if i.op != 15]  # the entry point
    assert module.bytes() == plain.bytes()


def test_equal_kernels_give_equal_bytes(traced: Kernel) -> None:
    first, second = (route.emit(traced, "vulkan1.1", Options()).blob for _ in range(2))
    assert first == second


def test_the_manifest_is_that_of_the_direct_emitter(traced: Kernel) -> None:
    """But for how it was made: a device launches both alike."""
    text, target = print_kernel(traced), "spirv-vulkan1.1"
    _, direct = compile_kernel(text, target, Options())
    _, ours = compile_kernel(text, target, Options(spirv_codegen="llc"))
    assert ours.facts == {**direct.facts, "codegen": "llc"}
    for name in ("entry", "params", "workgroup", "index", "subgroup", "sites", "shared_bytes"):
        assert getattr(ours, name) == getattr(direct, name)
    assert set(ours.requires) == {"storage8"}


def test_a_dead_llc_is_a_refusal(traced: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    real = route.write_kernel
    monkeypatch.setattr(route, "write_kernel", lambda *a: (DEADLY, real(*a)[1]))
    with pytest.raises(RouteError, match=r"llc ended by signal \d+ in its pass '.*'") as found:
        route.emit(traced, "vulkan1.1", Options())
    assert (found.value.stage, found.value.kernel) == ("llc", "everything")
    again = pickle.loads(pickle.dumps(found.value))
    assert (type(again), str(again)) == (RouteError, str(found.value))


def test_text_that_llvm_does_not_read_is_a_refusal_with_its_words(
    traced: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = route.write_kernel
    monkeypatch.setattr(route, "write_kernel", lambda *a: ("define oops", real(*a)[1]))
    with pytest.raises(RouteError, match=r"\(llc\): expected type"):
        route.emit(traced, "vulkan1.1", Options())


def test_an_llc_that_takes_too_long_is_a_refusal(
    traced: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = llc.compile_module
    monkeypatch.setattr(llc, "compile_module", lambda text, arch: real(text, arch, 1e-4))
    with pytest.raises(RouteError, match=r"llc was not done after 0\.0001 seconds") as found:
        route.emit(traced, "vulkan1.1", Options())
    assert found.value.stage == "timeout"


def test_a_module_that_is_not_valid_is_a_refusal(
    traced: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "requires", lambda module: ())
    monkeypatch.setattr(route, "correct", lambda module, *rest: None)
    with pytest.raises(RouteError, match=r"\(spirv-val\): ") as found:
        route.emit(traced, "vulkan1.1", Options())
    assert found.value.stage == "spirv-val"


def test_suffixes_of_targets_are_of_the_direct_emitter_alone(traced: Kernel) -> None:
    with pytest.raises(CompileError, match=r"unknown arch 'vulkan1.3:dot4'; known by way of LLVM"):
        route.emit(traced, "vulkan1.3:dot4", Options())


@pytest.mark.parametrize(
    ("entry", "workgroup", "buffers", "words"),
    [
        ("other", (32, 1, 1), 3, "its entry point is everything, not other"),
        ("everything", (64, 1, 1), 3, r"its workgroup is \(32, 1, 1\), not \(64, 1, 1\)"),
        ("everything", (32, 1, 1), 2, r"unexpected bindings .* \[\(2, 12\), \(3, 2\)\]"),
    ],
)
def test_another_interface_is_told(
    traced: Kernel, entry: str, workgroup: tuple[int, ...], buffers: int, words: str
) -> None:
    module = binary.parse(route.emit(traced, "vulkan1.1", Options()).blob)
    interface.check_interface(module, "everything", (32, 1, 1), 3)
    with pytest.raises(ValueError, match=words):
        interface.check_interface(module, entry, workgroup, buffers)


@pytest.mark.parametrize("blob", [b"", b"\0" * 20, b"\3\2\x23\7" + b"\0" * 20])
def test_what_is_no_module_is_told(blob: bytes) -> None:
    with pytest.raises(ValueError, match=r"no SPIR-V module|an instruction of 0 words"):
        binary.parse(blob)


@kernel(workgroup=lambda: (32, 1, 1), grid=lambda: (1, 1, 1))
def numbers(x: Read[f32], y: Write[i32], s: Read[i16]):
    """Conversions to signed integers, from floats and from narrower ones."""
    i = global_id(0)
    if i < len(y):
        y[i] = i32(x[i]) + i32(s[i])


def test_conversions_to_signed_integers_have_signed_types(require: Callable[..., None]) -> None:
    """SPIRV-Tools' optimizer goes by the type when it folds one."""
    require("llc")
    text = listing(numbers.trace("s"), "vulkan1.1", require)
    signed = set(re.findall(r"(%\d+) = OpTypeInt \d+ 1", text))
    made = re.findall(r"= Op(ConvertFToS|SConvert) (%\d+)", text)
    assert {op for op, _ in made} == {"ConvertFToS", "SConvert"}
    assert {kind for _, kind in made} <= signed, made


@pytest.mark.parametrize(("bits", "words"), [(32, [0]), (64, [0, 0])])
def test_a_null_integer_becomes_a_plain_constant_of_its_width(bits: int, words: list[int]) -> None:
    code = [
        binary.Instruction(corrections.S.TYPE_INT, [1, bits, 0]),
        binary.Instruction(corrections.S.CONSTANT_NULL, [1, 2]),
    ]
    corrections._Corrections(binary.Binary(0, 0, 3, code)).zeros()
    assert (code[1].op, code[1].words) == (corrections.S.CONSTANT, [1, 2, *words])
