"""Products of registers by subgroups, run by the model and assembled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.backends.ptx.emit import emit, validate
from ptx_model.host import Model
from ptx_tools import assembled
from warp_products import WARP_PRODUCTS, warp_case, warp_product


@pytest.fixture(autouse=True)
def tools(require: Callable[..., None]) -> None:
    require("gcc")
    require("ptxas")


@pytest.mark.parametrize("constexprs", WARP_PRODUCTS, ids=str)
def test_the_model_multiplies_registers_as_numpy_does(
    constexprs: dict[str, Any], rng: np.random.Generator
) -> None:
    traced = warp_product.trace("s", **constexprs)
    args, expected = warp_case(rng, constexprs)
    Model(traced, "sm_90").run(args, (3, 1, 1), seed=int(rng.integers(1 << 30)))
    assert (args[2] == expected[2]).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("constexprs", WARP_PRODUCTS, ids=str)
def test_the_assembler_takes_products(constexprs: dict[str, Any], arch: str) -> None:
    traced = warp_product.trace("s", **constexprs)
    made = emit(traced, arch, Options())
    text = made.blob.decode()
    assert "mma.sync.aligned.m16n8k" in text
    validate(made.blob, arch, traced)
    assembled(text, arch)
    assert "nv_subgroup_mma" in made.requires


@pytest.mark.parametrize(
    "target", ["ptx-sm_75", "cpu-x86-64-v3", "spirv-vulkan1.3", "wgsl-webgpu", "hsaco-gfx942"]
)
def test_targets_without_them_refuse_at_the_line(target: str) -> None:
    with pytest.raises(CompileError, match="nv_warp_mma needs nv_subgroup_mma") as caught:
        compile_kernel(str(warp_product.trace("s")), target, Options())
    assert caught.value.loc is not None
