"""Fragments in PTX: the instructions that are there, what they compute on the model, and that an
assembler takes them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from fragment_kernels import KINDS, attention_case, make_product, products, swizzled_case
from gristmill.backends.compile import Options
from gristmill.backends.ptx.arch import ARCHS
from gristmill.backends.ptx.emit import emit, validate
from gristmill.ir.core import Kernel
from ptx_model.host import Model
from ptx_tools import assembled

EIGHT = {"f8e4m3": "e4m3", "f8e5m2": "e5m2"}
MMA = {
    ("f16", "f32"): "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ("f16", "f16"): "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    ("bf16", "f32"): "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    ("f32", "f32"): "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
}


def instruction(kernel: Kernel, arch: str) -> str:
    """How a product is done; empty: by plain code."""
    facts = dict(kernel.constexprs)
    a, b, c = (str(facts[n]) for n in ("TA", "TB", "TC"))
    if a in EIGHT and arch in ("sm_75", "sm_80", "sm_86"):
        a = b = "f16"
    if a in EIGHT:
        return f"mma.sync.aligned.m16n8k32.row.col.f32.{EIGHT[a]}.{EIGHT[b]}.f32"
    if arch == "sm_75" and (a, c) in MMA:
        return MMA[a, c].replace("k16", "k8") if a == "f16" else ""
    shape = "m8n8k16" if arch == "sm_75" else "m16n8k32"
    x, y = (t.replace("i", "s") for t in (a, b))
    return MMA.get((a, c), f"mma.sync.aligned.{shape}.row.col.s32.{x}.{y}.s32")


def every_kind() -> Iterator[tuple[tuple[str, str, str, int], tuple[str, str], bool]]:
    """Every kind of product from both kinds of memory, in turn in each layout."""
    layouts = (("row", "column"), ("row", "row"), ("column", "column"), ("column", "row"))
    for n, kinds in enumerate(KINDS):
        for shared in (False, True):
            yield kinds, layouts[(n + shared) % 4], shared


def version(kernel: Kernel, arch: str) -> str:
    """The PTX version that comes of it."""
    found = instruction(kernel, arch)
    if ".e4m3." in found or ".e5m2." in found:
        return max(ARCHS[arch].isa, "8.4")
    return max(ARCHS[arch].isa, "6.5") if found else ARCHS[arch].isa


@pytest.mark.parametrize("level", ["sm_75", "sm_80", "sm_89", "sm_100"])
def test_products_are_instructions(level: str, rng: np.random.Generator) -> None:
    for kinds, layouts, shared in every_kind():
        case = make_product(rng, kinds, layouts, 32, shared)
        blob = emit(case.kernel, level, Options()).blob
        validate(blob, level, case.kernel)
        text, wanted = blob.decode(), instruction(case.kernel, level)
        assert (set(re.findall(r"mma\.sync\S*", text)) or {""}) == {wanted}
        assert f".version {version(case.kernel, level)}\n" in text
        whole_rows = kinds[3] == 32 and (layouts[0] == "row" or layouts[1] == "column")
        loads = shared and bool(wanted) and (kinds[0].endswith("f16") or whole_rows)
        assert ("ldmatrix" in text) == loads
        if kinds[0] == "f32" and wanted:
            assert "cvt.rna.tf32.f32" in text


@pytest.mark.parametrize("level", ["sm_75", "sm_80", "sm_89"])
def test_products_on_the_model(level: str, rng: np.random.Generator) -> None:
    for kinds, layouts, shared in every_kind():
        case = make_product(rng, kinds, layouts, 32, shared)
        Model(case.kernel, level).run(case.args, (1, 1, 1), seed=int(rng.integers(1 << 30)))
        assert not case.wrong(case.args[-1])


@pytest.mark.parametrize("checks", [False, True])
def test_swizzled_rows_on_the_model(checks: bool, rng: np.random.Generator) -> None:
    for t, level in (("f16", "sm_75"), ("bf16", "sm_80"), ("i8", "sm_80"), ("f8e5m2", "sm_89")):
        case, read = swizzled_case(rng, t, 32)
        faults = Model(case.kernel, level, checks).run(case.args, (1, 1, 1))
        assert not faults
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


@pytest.mark.parametrize("model_arch", ["sm_75", "sm_80"])
def test_attention_on_the_model(model_arch: str, rng: np.random.Generator) -> None:
    case = attention_case(rng, 64, 32)
    Model(case.kernel, model_arch).run(case.args, (4, 1, 1))
    assert not case.wrong(case.args[3])


def test_every_product_is_assembled(arch: str, rng: np.random.Generator) -> None:
    for kinds, layouts, shared in every_kind():
        case = make_product(rng, kinds, layouts, 32, shared)
        assembled(emit(case.kernel, arch, Options()).blob.decode(), arch)


@pytest.mark.parametrize(
    "level", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]
)
def test_attention_keeps_its_weights_in_registers(level: str, rng: np.random.Generator) -> None:
    case = attention_case(rng, 32, 32)
    text = emit(case.kernel, level, Options()).blob.decode()
    assert text.count("mma.sync") == 8
    assert ".shared" not in text


def test_without_the_instruction_fragments_are_plain_code(rng: np.random.Generator) -> None:
    case = make_product(rng, ("bf16", "bf16", "f32", 16), ("row", "row"), 32, True)
    text = emit(case.kernel, "sm_75", Options()).blob.decode()
    assert "mma.sync" not in text
    assert "shfl.sync" in text


def test_checked_accesses_are_single(rng: np.random.Generator) -> None:
    for case in products(rng, 32, 4):
        emitted = emit(case.kernel, "sm_80", Options(checks=True))
        assert "ldmatrix" not in emitted.blob.decode()
        assert any("index out of bounds" in site for site in emitted.sites)
