"""Decoders of quantized weights on devices, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir import quantized
from gristmill.ir.interp import run
from gristmill.ir.quantized import BLOCKS
from gristmill.kernels.quantized_inputs import format_name, matrix, weights
from need import driver_file
from quantized_runs import BY_NAME, extremes, loaded, same_bits, traced

OF_BLOCKS = [n for n in BY_NAME if format_name({"FORMAT": BY_NAME[n]})[0] in BLOCKS]
DEVICES = {"interp": "interp", "cpu": "cpu", "lavapipe": "vulkan:llvmpipe"}


@pytest.fixture
def device(
    request: pytest.FixtureRequest, require: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    """The device of a test's parameter."""
    require(request.param)
    if (file := driver_file("lavapipe")) is not None:
        monkeypatch.setenv("VK_DRIVER_FILES", str(file))
    with runtime.open_device(DEVICES[request.param]) as opened:
        yield opened


def rows_of(
    device: runtime.Device, name: str, data: np.ndarray, folder: Path, **more
) -> np.ndarray:
    """Every row of uint8[rows, bytes] by the kernel `dequantize`."""
    form = BLOCKS[name.removesuffix("_planes")]
    if name.endswith("_planes"):
        parts = [p.view(np.uint32) for p in quantized.planes(data, form)]
    else:
        parts = [data.reshape(-1).view(form.word.storage)]
    kernel = loaded(device, traced("dequantize", name, **more), folder)
    cols = data.shape[1] // form.bytes * form.block
    y = np.zeros((len(data), cols), np.float32)
    kernel(*parts, np.arange(len(data), dtype=np.int32), y, len(data), cols)
    return y


@pytest.mark.parametrize(
    ("device", "native"),
    [("interp", False), ("interp", True), ("cpu", True), ("lavapipe", False)],
    indirect=["device"],
)
def test_decoders_give_the_reference_decoders_bits(
    device: runtime.Device,
    native: bool,
    rng: np.random.Generator,
    tmp_path: Path,
    require: Callable[[str], None],
) -> None:
    """Denormal, infinite and NaN scales, too; those are why `NATIVE` is off where a conversion may
    take denormals for zeros."""
    require("gguf")
    import gguf

    wrong = []
    for name in OF_BLOCKS:
        form = BLOCKS[name.removesuffix("_planes")]
        data = np.concatenate([extremes(form), rng.integers(0, 256, (40, form.bytes), np.uint8)])
        data = data[: len(data) // 2 * 2].reshape(-1, 2 * form.bytes)
        with np.errstate(all="ignore"):
            want = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(form.ggml_type))
        block = 1 if device.name == "cpu" else 64
        got = rows_of(device, name, data, tmp_path / name, NATIVE=native, BLOCK=block)
        if not same_bits(got, want):
            at = np.argwhere((got.view(np.uint32) != want.view(np.uint32)) & ~np.isnan(want))
            wrong.append((name, *[(tuple(p), got[*p], want[*p]) for p in at[:3]], len(at)))
    assert not wrong


@pytest.mark.parametrize("group", [32, 64, 128])
@pytest.mark.parametrize("name", ["u4", "fp8_block"])
def test_groups_of_any_whole_unit_are_decoded(
    name: str, group: int, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Also where the last group of a row, or of rows, is not whole."""
    rows, cols = 130, 160
    kernel = traced("dequantize", name, GROUP=group)
    constexprs = dict(kernel.constexprs)
    parts = matrix(rng, rows, cols, constexprs)
    picks = np.array([129, 0, 128, 127], np.int32)
    y = np.zeros((4, cols), np.float32)
    with runtime.open_device("interp") as device:
        loaded(device, kernel, tmp_path)(*parts, picks, y, rows, cols)
    # Equal, not the same: a zero times a negative scale has another sign here.
    assert np.array_equal(y, weights(parts, rows, cols, constexprs)[picks])


@pytest.mark.parametrize("row", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_row_outside_the_matrix_is_a_fault_and_zeros(row: int, tmp_path: Path) -> None:
    kernel = traced("dequantize", "q8_0")
    (blocks,) = matrix(np.random.default_rng(1), 3, 64, dict(kernel.constexprs))
    y = np.full((3, 64), 7, np.float32)
    with runtime.open_device("interp") as device:
        dequantize = loaded(device, kernel, tmp_path)
        with pytest.raises(runtime.KernelFault, match="row number outside the matrix"):
            dequantize(blocks, np.array([2, row, 0], np.int32), y, 3, 64)
    assert y[[0, 2]].any(axis=1).all()
    assert not y[1].any()


@pytest.mark.parametrize("name", ["q8_0", "q4_k", "iq4_xs", "int8"])
def test_a_matrix_without_rows_is_not_read(name: str) -> None:
    kernel = traced("dequantize", name)
    cols = 512
    parts = matrix(np.random.default_rng(1), 1, cols, dict(kernel.constexprs))
    rows, y = np.array([0, -1], np.int32), np.full((2, cols), 7, np.float32)
    report = run(kernel, [*(part[:0] for part in parts), rows, y, 0, cols], (1, 1, 1))
    assert not report.problems
    sites = [kernel.sites[n] for n in report.faults]
    assert sites == ["dequantize: row number outside the matrix"]
    assert not y.any()
