"""The kernels of quantized weights that ship: for every format, as its description has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir.quantized import BLOCKS, FORMATS
from gristmill.kernels.family import compare
from gristmill.kernels.quantized_gemv import FAMILIES
from gristmill.kernels.quantized_inputs import format_name
from gristmill_build import config
from quantized_runs import BY_NAME, loaded, traced

ROOT = Path(__file__).parents[2]
ROWS = config.load(ROOT).kernels
KERNELS = ("dequantize", "quantized_gemv")
# What a load-time transform makes `u4` of.
CHECKPOINTS = {"gptq", "awq"}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_format_has_a_specialization_that_reads_it_as_it_lies(kernel: str) -> None:
    found = set()
    for name, constexprs in ROWS[kernel].specializations.items():
        form, planes = format_name(constexprs)
        found.add(form)
        assert name.startswith(form + "_planes" * planes)
        apart = planes or form not in BLOCKS
        assert constexprs.get("PARTS", 1) == 1 + apart, name
        assert constexprs.get("W", "u32") == ("u32" if apart else BLOCKS[form].word.name), name
    assert found == set(FORMATS) - CHECKPOINTS


def test_every_layout_has_a_product() -> None:
    shipped = {format_name(c) for c in ROWS["quantized_gemv"].specializations.values()}
    for name, form in BLOCKS.items():
        assert {(name, layout == "planes") for layout in form.layouts} <= shipped


SHAPES = (
    {"LANES": 1, "NATIVE": True},
    {"LANES": 8, "SUBGROUP": 8, "TEAMS": 3, "ROWS": 2},
    {"LANES": 32, "ROWS": 3, "DEEP": 4, "T": "f16"},
)


@pytest.mark.parametrize("constexprs", SHAPES, ids=str)
@pytest.mark.parametrize("decoder", BY_NAME)
def test_products_of_every_shape_of_workgroup_agree_with_the_reference(
    decoder: str, constexprs: dict, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Rows that no workgroup ends at, and units behind the row."""
    (family,) = FAMILIES
    kernel = traced("quantized_gemv", decoder, **constexprs)
    given = dict(kernel.constexprs)
    with runtime.open_device("interp") as device:
        product = loaded(device, kernel, tmp_path)
        for args in family.inputs(rng, given):
            want = family.reference(args, given)["y"]
            product(*args.values())
            found = compare(args["y"], want, kernel.params[-2].dtype)
            assert found.ok, f"off by {found.error}, bound {found.bound}"
