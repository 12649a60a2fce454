"""Helpers of the frontend's tests: run a kernel on the oracle, trace source from a string."""

# ruff: noqa: E501  (tables of cases and kernel sources)

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gristmill.ir.core import Kernel
from gristmill.ir.interp import run as interpret
from gristmill.ir.lang import KernelFunction
from gristmill.ir.text import parse_kernel, print_kernel
from modules import load_module

_NUMBERS = itertools.count()
HEAD = (
    "from __future__ import annotations\nimport math\nimport numpy as np\n"
    "from gristmill.ir.lang import *\n\n"
)


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Any]:
    """`load(source)`: a module of kernels, written to a file of its own."""

    def make(source: str) -> Any:
        name = f"kernels_{next(_NUMBERS)}"
        path = tmp_path / f"{name}.py"
        path.write_text(HEAD + source)
        return load_module(path, name)

    return make


def trace(kernel: KernelFunction, **constexprs: Any) -> Kernel:
    """Trace twice and through the text form: both must give the same."""
    traced = kernel.trace("test", **constexprs)
    text = print_kernel(traced)
    assert print_kernel(kernel.trace("test", **constexprs)) == text
    assert parse_kernel(text) == traced
    return traced


@pytest.fixture
def run() -> Callable[..., Any]:
    """`run(kernel, *args, grid=(1, 1, 1), **constexprs)`: on the interpreter, without a report."""

    def go(
        kernel: KernelFunction,
        *args: Any,
        grid: tuple[int, int, int] = (1, 1, 1),
        **constexprs: Any,
    ) -> Any:
        report = interpret(trace(kernel, **constexprs), args, grid)
        assert not report.problems, "\n".join(map(str, report.problems))
        return report

    return go


@pytest.fixture
def elementwise(load: Any, run: Any) -> Callable[..., Any]:
    """`elementwise("expr of a, b", out, *arrays)`: the expression over arrays, in a kernel."""

    def go(body: str, out: str, *arrays: np.ndarray) -> np.ndarray:
        names = "abcd"[: len(arrays)]
        kinds = {np.dtype(t): n for t, n in _TYPES.items()}
        params = ", ".join(
            f"{n}_: Read[{kinds[x.dtype]}]" for n, x in zip(names, arrays, strict=True)
        )
        lets = "; ".join(f"{n} = {n}_[i]" for n in names)
        lines = body.split("\n")
        text = "\n    ".join([*lines[:-1], f"out_[i] = {lines[-1]}"])
        source = (
            f"@kernel(workgroup=lambda: 64)\ndef k({params}, out_: Write[{out}]):\n"
            f"    i = global_id(0)\n    if i >= len(out_):\n        return\n    {lets}\n    {text}\n"
        )
        result = np.zeros(len(arrays[0]), {n: t for t, n in _TYPES.items()}[out])
        run(load(source).k, *arrays, result, grid=(-(-len(result) // 64), 1, 1))
        return result

    return go


_TYPES: dict[Any, str] = {
    np.bool_: "bool_", np.int8: "i8", np.int16: "i16", np.int32: "i32", np.int64: "i64",
    np.uint8: "u8", np.uint16: "u16", np.uint32: "u32", np.uint64: "u64", np.float16: "f16",
    np.float32: "f32", np.float64: "f64",
}  # fmt: skip
