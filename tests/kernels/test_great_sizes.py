"""The last elements of the greatest buffers that indexes of 32 bits reach: nothing wraps.

Memory that nobody writes is not there: of 2**31 - 1 bytes, the last page is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import Kernel
from gristmill.ir.interp import InterpOptions, run
from gristmill.ir.lang import KernelFunction
from gristmill.ir.text import parse_kernel, print_kernel
from gristmill.kernels.cast import cast
from gristmill.kernels.choice import compare, limit, where
from gristmill.kernels.elementwise import binary, op_add, unary
from gristmill.kernels.elementwise import op_relu as relu
from gristmill.kernels.gated import gated, op_relu

COUNT = 2**31 - 1
VEC, BLOCK = 8, 32
GLOBAL = "= global_id {dim=0} : i32"


def last_group(kernel: KernelFunction, **constexprs: Any) -> Kernel:
    """The kernel as its last workgroup sees it when it is the only one."""
    lines = print_kernel(kernel.trace("t", VEC=VEC, BLOCK=BLOCK, **constexprs)).splitlines()
    (at,) = (n for n, line in enumerate(lines) if GLOBAL in line)
    name = lines[at].split()[0]
    first = COUNT // (VEC * BLOCK) * BLOCK
    lines[at : at + 1] = [
        f"%90001 {GLOBAL}",
        f"%90002 = const {first} : i32",
        f"{name} = add %90001, %90002 : i32",
    ]
    return parse_kernel("\n".join(lines) + "\n")


def filled(value: int, dtype: type = np.uint8) -> np.ndarray:
    """COUNT elements, of which the last 20 have a value."""
    array = np.zeros(COUNT, dtype)
    array[-20:] = value
    return array


CASES: dict[str, tuple[KernelFunction, Callable[[], list[Any]], dict[str, Any], int]] = {
    "where": (where, lambda: [filled(1, np.bool_), filled(7), filled(9)], {"T": "u8"}, 7),
    "compare": (compare, lambda: [filled(7), filled(9)], {"T": "u8"}, 1),
    "limit": (limit, lambda: [filled(200)], {"T": "u8"}, 30),
    "unary": (unary, lambda: [filled(7)], {"OP": relu, "T": "u8", "C": "u8"}, 7),
    "binary": (binary, lambda: [filled(7), filled(2)], {"OP": op_add, "T": "u8", "C": "u8"}, 9),
    "cast": (cast, lambda: [filled(200)], {"T": "u8", "U": "u8"}, 200),
    # 1 and 2: 0x38 and 0x40
    "gated": (gated, lambda: [filled(0x38), filled(0x40)], {"OP": op_relu, "T": "f8e4m3"}, 0x40),
}


@pytest.mark.parametrize("name", CASES)
def test_the_last_elements_are_written_and_nothing_beyond(name: str) -> None:
    kernel, inputs, constexprs, wanted = CASES[name]
    y = np.zeros(COUNT, np.bool_ if name == "compare" else np.uint8)
    scalars = [10.0, 30.0] if name == "limit" else []
    traced = last_group(kernel, **constexprs)
    report = run(traced, [*inputs(), y, *scalars], (1, 1, 1), options=InterpOptions(races=False))
    assert not report.problems
    assert y[-20:].tolist() == [wanted] * 20
