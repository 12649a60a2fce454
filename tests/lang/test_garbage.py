"""The cycle collector is as it was after a trace and a compile, whether or not they succeed."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from gristmill.backends.compile import CompileError, Options, compile_kernel
from gristmill.ir.garbage import uncollected
from gristmill.ir.lang import Diagnostic
from gristmill.ir.text import print_kernel
from gristmill.kernels.elementwise import saxpy


@pytest.fixture(params=[True, False])
def collecting(request: pytest.FixtureRequest) -> Any:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_is_left_as_it_was(collecting: bool) -> None:
    seen = []
    quietly = uncollected()(lambda: seen.append(gc.isenabled()))
    quietly()
    quietly()
    assert seen == [False, False]
    text = print_kernel(saxpy.trace("s"))
    assert gc.isenabled() is collecting
    compile_kernel(text, "interp-kir", Options())
    assert gc.isenabled() is collecting
    with pytest.raises(Diagnostic):
        saxpy.trace("s", T="nothing")
    with pytest.raises(CompileError):
        compile_kernel(text, "ptx-sm_1", Options())
    assert gc.isenabled() is collecting
