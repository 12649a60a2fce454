"""8-bit floats as callers pass them: patterns in numpy's uint8, the same on every device."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gristmill import runtime
from gristmill.ir import float8
from gristmill.ir.dtypes import DTYPES, f8e4m3, f8e5m2
from gristmill.runtime.memory import as_dtype, scalar_value_bits

NAMES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
KINDS = {"e4m3": ("f8e5m2", "f8e4m3"), "e5m2": ("f8e4m3", "f8e5m2")}


def refused(device: runtime.Device, bundle: runtime.Bundle, spec: str) -> bool:
    """Whether it is refused, as a device without bytes in buffers must; WGSL has them in words."""
    found, has = bundle.select("requantize", spec, device.capabilities), device.capabilities
    bytes_ = "storage8" in has.features or "wgsl-webgpu" in has.targets
    assert isinstance(found, runtime.Refusal) != bytes_
    return isinstance(found, runtime.Refusal)


@pytest.mark.parametrize("spec", KINDS)
def test_every_pattern_goes_through_a_kernel(computing, bundle, spec):
    device = computing
    source, target = KINDS[spec]
    if refused(device, bundle, spec):
        return
    x = np.arange(256, dtype=np.uint8)
    y, z = device.allocate(256, target), device.allocate(256, "f32")
    slot = device.slot(source, 0.5)
    kernel = device.load(bundle, "requantize", spec)
    device.launch(kernel, device.upload(x, source), y, z, 1.5, slot)
    turned = float8.decode(x.reshape(4, 64)[:, ::-1].reshape(-1), source)
    np.testing.assert_array_equal(z.numpy(), turned)
    limit = float8.FORMATS[target].limit
    with np.errstate(invalid="ignore"):
        want = float8.rounded(
            np.clip(turned * np.float32(1.5) + np.float32(0.5), -limit, limit), target
        )
    got, want = (float8.decode(v, target) for v in (y.numpy(), want))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("spec", KINDS)
def test_arrays_of_another_package_are_taken_as_they_are(computing, bundle, spec):
    if refused(computing, bundle, spec):
        return
    source, target = (np.dtype(NAMES[name]) for name in KINDS[spec])
    values = np.array([0.5, -1, 1.5, 3] * 3, np.float32)
    x, y = values.astype(source), np.zeros(12, target)
    kernel = computing.load(bundle, "requantize", spec)
    kernel(x, y, np.zeros(12, np.float32), 1.0, 0.25)
    turned = np.zeros(64, np.float32)
    turned[:12] = values
    np.testing.assert_array_equal(y.astype(np.float32), (turned[::-1][:12] + 0.25))
    buffer = computing.upload(x)
    assert buffer.dtype.name == KINDS[spec][0]
    assert buffer.numpy().tobytes() == x.tobytes()
    buffer.write(x[::-1])
    assert buffer.numpy().tobytes() == x[::-1].tobytes()
    with pytest.raises(runtime.ArgumentError, match=r"does not fit.*convert it with .astype"):
        buffer.write(values.astype(target))
    with pytest.raises(runtime.ArgumentError, match="wrong dtype"):
        kernel(y, y, np.zeros(12, np.float32), 1.0, 0.25)


def test_arrays_of_patterns_are_checked(computing, bundle):
    device = computing
    if refused(device, bundle, "e4m3"):
        return
    kernel = device.load(bundle, "requantize", "e4m3")
    good = device.upload(np.zeros(4, np.uint8), "f8e5m2")
    slot = device.slot("f8e5m2", 0)
    y, z = device.allocate(4, "f8e4m3"), device.allocate(4, "f32")
    for wrong in (
        device.upload(np.zeros(4, np.uint8)),
        device.upload(np.zeros(4, np.uint8), "f8e4m3"),
    ):
        with pytest.raises(runtime.ArgumentError, match="expected f8e5m2"):
            device.launch(kernel, wrong, y, z, 1.0, slot)
    with pytest.raises(runtime.ArgumentError, match=r"float8_e5m2\), or pass its bits as uint8"):
        kernel(np.zeros(4, np.float32), np.zeros(4, np.uint8), np.zeros(4, np.float32), 1.0, slot)
    with pytest.raises(runtime.ArgumentError, match="would become a NaN"):
        device.launch(kernel, good, y, z, 1e6, slot)


def test_bits_of_scalars_and_types_of_arrays():
    assert scalar_value_bits(448, f8e4m3, "") == 0x7E
    assert scalar_value_bits(float("nan"), f8e4m3, "") == 0x7F
    assert scalar_value_bits(float("-inf"), f8e5m2, "") == 0xFC
    with pytest.raises(runtime.ArgumentError, match="would become infinite"):
        scalar_value_bits(61440, f8e5m2, "")
    assert as_dtype(np.uint8) == DTYPES["u8"]
    assert as_dtype("f8e4m3") == f8e4m3
    assert as_dtype(np.dtype(ml_dtypes.float8_e4m3fn)) == f8e4m3
    assert as_dtype(ml_dtypes.bfloat16) == DTYPES["bf16"]
