"""The kernel language: a typed subset of Python, traced from the AST to kernel IR.

from __future__ import annotations  # types may name constexprs, such as T
from gristmill.ir.lang import *

@kernel(workgroup=lambda: BLOCK, grid=lambda: ceil_div(len(y), BLOCK))
def saxpy(x: Read[T], y: ReadWrite[T], a: T, *, T: DType = f32, BLOCK: int = 256):
    i = global_id(0)
    if i < len(y):
        y[i] = a * x[i] + y[i]
"""

from __future__ import annotations

from typing import Any

from ..dtypes import (
    DType,
    FragmentType,
    VectorType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from . import functions as _functions  # noqa: F401  (fills the table)
from . import nv
from .decorator import DeviceFunction, KernelFunction, device, kernel
from .diagnostics import Diagnostic
from .surface import TABLE as _TABLE
from .surface import (
    VECTORS as _VECTORS,
)
from .surface import (
    Buffers,
    Function,
    OutsideKernelError,
    Read,
    ReadWrite,
    Write,
    fragment,
    may_alias,
    slot,
    vec,
)

_NAMES: dict[str, Any] = {
    **{name: f for name, f in _TABLE.items() if "." not in name},
    **_VECTORS,
}
# Builtins of Python keep their names: abs, min, max, pow, round, print act in kernels as they are.
globals().update(_NAMES)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"the kernel language has no {name!r}")


# The names of the table are no literals: type checkers see the ones that are written out.
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "Buffers",
    "DType",
    "DeviceFunction",
    "Diagnostic",
    "FragmentType",
    "Function",
    "KernelFunction",
    "OutsideKernelError",
    "Read",
    "ReadWrite",
    "VectorType",
    "Write",
    "bf16",
    "bool_",
    "device",
    "f8e4m3",
    "f8e5m2",
    "f16",
    "f32",
    "f64",
    "fragment",
    "i8",
    "i16",
    "i32",
    "i64",
    "kernel",
    "may_alias",
    "nv",
    "slot",
    "u8",
    "u16",
    "u32",
    "u64",
    "vec",
    *_NAMES,
]
