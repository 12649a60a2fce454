"""Parts of another matrix than a kernel is told of: a fault and zeros, never another's scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gristmill.ir.interp import run
from gristmill.kernels.int8_gemv import int8_gemv
from gristmill.kernels.quantized_inputs import columns, format_name, matrix
from gristmill.kernels.quantized_sizes import DECODERS
from quantized_runs import traced

ROWS = 3


def launched(kernel: str, decoder: str, parts: Any, cols: int, **constexprs: Any) -> Any:
    """(y, whether the size is a fault) of the kernel on a matrix of ROWS rows."""
    k = traced(kernel, decoder, **constexprs)
    width = max(cols, 1)
    if kernel == "dequantize":
        y = np.full((2, width), 7, np.float32)
        arguments = [np.array([2, 0], np.int32), y, ROWS, cols]
        grid = (-(-y.size // 64 // 32), 1, 1)
    else:
        y = np.full(ROWS, 7, np.float32)
        arguments = [np.ones(width, np.float32), y, cols]
        grid = (ROWS, 1, 1)
    report = run(k, [*parts, *arguments], grid)
    assert not report.problems
    assert [k.sites[n] for n in report.faults if "another size" not in k.sites[n]] == []
    return y, bool(report.faults)


def parts_of(decoder: str, cols: int, **constexprs: Any) -> Any:
    told = dict(traced("dequantize", decoder, **constexprs).constexprs)
    return matrix(np.random.default_rng(5), ROWS, cols, told)


@pytest.mark.parametrize("kernel", ["dequantize", "quantized_gemv"])
@pytest.mark.parametrize("decoder", [d.name for d in DECODERS])
def test_parts_of_another_size_are_a_fault_and_zeros(kernel: str, decoder: str) -> None:
    unit = columns(format_name({"FORMAT": decoder})[0])
    parts = parts_of(decoder, 2 * unit)
    y, fault = launched(kernel, decoder, parts, 2 * unit)
    assert not fault
    assert (y != 7).all()
    for n in range(len(parts)):
        flat = [np.asarray(part).reshape(-1) for part in parts]
        for other in (flat[n][:-1], flat[n][:0], np.concatenate([flat[n], flat[n]])):
            y, fault = launched(kernel, decoder, [*flat[:n], other, *flat[n + 1 :]], 2 * unit)
            assert fault
            assert not y.any()


@pytest.mark.parametrize("kernel", ["dequantize", "quantized_gemv"])
@pytest.mark.parametrize("decoder", ["q8_0", "q4_k", "q6_k_planes", "u4", "int8"])
def test_columns_that_are_no_whole_blocks_are_a_fault(kernel: str, decoder: str) -> None:
    unit = columns(format_name({"FORMAT": decoder})[0])
    parts = parts_of(decoder, 2 * unit)
    for cols in (0, -unit, unit // 2, unit + 32 if unit > 32 else unit + 8, 4 * unit):
        _, fault = launched(kernel, decoder, parts, cols)
        assert fault or (cols <= 0 and kernel == "dequantize")  # whose y is empty


@pytest.mark.parametrize("kernel", ["dequantize", "quantized_gemv"])
@pytest.mark.parametrize("decoder", ["u4", "fp8_block"])
@pytest.mark.parametrize(("held", "read"), [(64, 128), (128, 64), (32, 128)])
def test_groups_of_another_length_are_a_fault(
    kernel: str, decoder: str, held: int, read: int
) -> None:
    """Their scales would be taken for those of other columns."""
    parts = parts_of(decoder, 256, GROUP=held)
    assert not launched(kernel, decoder, parts, 256, GROUP=held)[1]
    y, fault = launched(kernel, decoder, parts, 256, GROUP=read)
    assert fault
    assert not y.any()


def test_a_short_vector_is_a_fault_of_the_product() -> None:
    k = traced("quantized_gemv", "q8_0")
    y = np.full(ROWS, 7, np.float32)
    report = run(k, [*parts_of("q8_0", 64), np.ones(63, np.float32), y, 64], (ROWS, 1, 1))
    assert report.faults
    assert not report.problems
    assert not y.any()


@pytest.mark.parametrize("wrong", ["", "w", "scales", "x", "x_scale", "cols", "many"])
def test_integers_of_another_size_are_a_fault(wrong: str) -> None:
    k = int8_gemv.trace("test")
    sizes = {"w": ROWS * 8, "scales": ROWS, "x": 8, "x_scale": 1}
    sizes |= {wrong: sizes[wrong] - 1} if wrong in sizes else {}
    kinds = {"w": np.int32, "x": np.int32, "scales": np.float32, "x_scale": np.float32}
    arrays = {name: np.full(size, 3, kinds[name]) for name, size in sizes.items()}
    y = np.full(ROWS, 7, np.float32)
    cols = {"cols": 24, "many": 131_072}.get(wrong, 32)
    report = run(k, [*arrays.values(), y, cols], (ROWS, 1, 1))
    assert not report.problems
    assert bool(report.faults) == bool(wrong)
    assert y.any() != bool(wrong)
