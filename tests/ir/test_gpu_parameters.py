"""The packed parameters of GPU kernels: one layout for emitters and devices."""

from __future__ import annotations

import struct

import pytest

from gristmill.ir import abi
from gristmill.ir.dtypes import DTYPES, Access, bf16, bool_, f64, i8, i16, u32
from gristmill.ir.interface import Param
from gristmill.ir.targets import Target


def _buffer(name):
    return Param(name, "buffer", DTYPES["f32"], Access.READWRITE)


def _scalar(name, dtype):
    return Param(name, "scalar", dtype)


def test_every_parameter_lies_at_its_own_alignment():
    params = [
        _scalar("flag", bool_), _buffer("x"), _scalar("w", bf16), Param("s", "slot", u32),
        _scalar("d", f64), _scalar("b", i8),
    ]  # fmt: skip
    layout = abi.gpu_layout(params, faults=True)
    assert layout.pointers == (0, 8)
    assert layout.scalars == (16, 18, 24, 32)
    assert layout.counts == (40, 48)
    assert (layout.faults, layout.fault_base) == (56, 64)
    assert (layout.grid, layout.size) == (68, 80)


def test_without_fault_sites_the_grid_follows_the_counts():
    layout = abi.gpu_layout([_buffer("x")], faults=False)
    assert (layout.faults, layout.fault_base, layout.grid, layout.size) == (None, None, 16, 28)


def test_packed_bytes_hold_each_value_where_the_layout_says():
    params = [_buffer("x"), _scalar("a", i16), _scalar("c", f64)]
    half = abi.scalar_bits(-2, i16)
    real = abi.scalar_bits(1.5, f64)
    packed = abi.gpu_bytes(params, True, [1 << 40], [half, real], [-1], 1 << 33, 7, (3, 2, 1))
    expected = struct.pack("<Qh6xdqQI3I", 1 << 40, -2, 1.5, -1, 1 << 33, 7, 3, 2, 1)
    assert packed == expected


def test_packing_refuses_a_wrong_number_of_values():
    with pytest.raises(ValueError, match="zip"):
        abi.gpu_bytes([_buffer("x")], False, [], [], [4], 0, 0, (1, 1, 1))


@pytest.mark.parametrize("name", ["ptx-sm_90a", "cubin-sm_80"])
def test_nvidia_targets_are_read(name):
    assert str(Target.parse(name)) == name
