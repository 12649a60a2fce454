"""A workgroup over what any device of the target has is refused where its source says so."""

from __future__ import annotations

import pytest

from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.ir.lang import *
from gristmill.ir.text import line_locs, print_kernel


@kernel(workgroup=lambda: (64, 1, 1), grid=lambda: (1, 1, 1))
def large(y: Write[f32], *, COUNT: int = 20_000):
    tile = workgroup_array(f32, COUNT)
    tile[local_id(0)] = 1.0
    barrier()
    y[local_id(0)] = tile[63 - local_id(0)]


@kernel(workgroup=lambda: (2048, 1, 1), grid=lambda: (1, 1, 1))
def crowded(y: Write[f32]):
    y[local_id(0)] = 1.0


def test_a_workgroup_array_over_the_limit_is_named_with_its_line():
    traced = large.trace("test")
    with pytest.raises(CompileError, match="80000 bytes exceed the limit of 65536") as caught:
        compile_kernel(print_kernel(traced), "spirv-vulkan1.1", Options())
    assert "tile" in print_kernel(traced).splitlines()[caught.value.loc.line - 1]
    assert line_locs(traced)[caught.value.loc.line].file.endswith("test_workgroup_limits.py")
    compile_kernel(print_kernel(large.trace("test", COUNT=8192)), "spirv-vulkan1.1", Options())


def test_a_workgroup_of_too_many_invocations_is_refused():
    with pytest.raises(CompileError, match="2048 invocations exceeds 1024"):
        compile_kernel(print_kernel(crowded.trace("test")), "spirv-vulkan1.1", Options())
