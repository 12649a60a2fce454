"""Fragments in PTX: the instructions that are there, what they compute on the model, and that an
assembler takes them."""

from __future__ import annotations

import numpy as np
import pytest

from fragment_kernels import attention_case, products, swizzled_case
from gristmill.backends.compile import Options
from gristmill.backends.ptx.emit import emit, validate
from ptx_model.host import Model
from ptx_tools import assembled

MMA = {
    ("f16", "f32"): "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    ("f16", "f16"): "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
    ("bf16", "f32"): "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    ("f32", "f32"): "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
}


def test_products_are_instructions(rng: np.random.Generator) -> None:
    for case in products(rng, 32, 16):
        blob = emit(case.kernel, "sm_80", Options()).blob
        validate(blob, "sm_80", case.kernel)
        text = blob.decode()
        facts = dict(case.kernel.constexprs)
        a, b, c = (str(facts[n]) for n in ("TA", "TB", "TC"))
        whole = f"mma.sync.aligned.m16n8k32.row.col.s32.{a[0].replace('i', 's')}8."
        whole += f"{b[0].replace('i', 's')}8.s32"
        assert MMA.get((a, c), whole) in text
        assert ("ldmatrix" in text) == (bool(facts["SHARED"]) and a.endswith("f16"))
        if a == "f32":
            assert "cvt.rna.tf32.f32" in text


def test_products_on_the_model(rng: np.random.Generator) -> None:
    for case in products(rng, 32, 10):
        Model(case.kernel).run(case.args, (1, 1, 1), seed=int(rng.integers(1 << 30)))
        assert not case.wrong(case.args[-1])


@pytest.mark.parametrize("checks", [False, True])
def test_swizzled_rows_on_the_model(checks: bool, rng: np.random.Generator) -> None:
    for t in ("f16", "bf16", "i8"):
        case, read = swizzled_case(rng, t, 32)
        faults = Model(case.kernel, "sm_80", checks).run(case.args, (1, 1, 1))
        assert not faults
        assert not case.wrong(case.args[2])
        assert (case.args[3] == read).all()


@pytest.mark.parametrize("model_arch", ["sm_75", "sm_80"])
def test_attention_on_the_model(model_arch: str, rng: np.random.Generator) -> None:
    case = attention_case(rng, 64, 32)
    Model(case.kernel, model_arch).run(case.args, (4, 1, 1))
    assert not case.wrong(case.args[3])


def test_every_product_is_assembled(arch: str, rng: np.random.Generator) -> None:
    for case in products(rng, 32, 6):
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
    case = attention_case(rng, 32, 32)
    text = emit(case.kernel, "sm_75", Options()).blob.decode()
    assert "mma.sync" not in text
    assert "shfl.sync" in text


def test_checked_accesses_are_single(rng: np.random.Generator) -> None:
    for case in products(rng, 32, 4):
        emitted = emit(case.kernel, "sm_80", Options(checks=True))
        assert "ldmatrix" not in emitted.blob.decode()
        assert any("index out of bounds" in site for site in emitted.sites)
