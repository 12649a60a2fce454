"""Arithmetic on by-value scalars of 8 and 16 bits, which legalization holds in 32."""

from __future__ import annotations

import pytest

from gristmill.backends.compile import Options, compile_kernel
from gristmill.backends.spirv.emit import validate
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy


@pytest.mark.parametrize("arch", ["vulkan1.1", "vulkan1.3"])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "f16", "bf16", "i64", "u64", "f64"])
def test_a_narrow_scalar_times_a_buffer_is_a_valid_module(arch, dtype):
    text = print_kernel(saxpy.trace("test", T=dtype))
    blob, _ = compile_kernel(text, f"spirv-{arch}", Options())
    validate(blob, arch)
